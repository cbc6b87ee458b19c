"""Kafka's assignors, and those that a user brings."""
