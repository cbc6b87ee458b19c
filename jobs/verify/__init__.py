"""Verification: log and files of each table without Spark, then what its rows say about each other."""
