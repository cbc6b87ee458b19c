"""Collecting: a live cluster -> files that a run lands. No Spark."""
