"""Kafka's partition assignors, result for result, in pure Python."""
