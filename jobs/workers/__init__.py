"""Data that is sent to Spark's Python workers, and the limits of workers."""
