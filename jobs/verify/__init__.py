"""Verification: log and files of each table without Spark, then whether the rows agree with each other."""
