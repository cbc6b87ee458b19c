"""What crosses to Spark's Python workers, and what guards them there."""
