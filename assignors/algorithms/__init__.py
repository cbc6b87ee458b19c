"""Kafka's assignors, and calls of assignors of users."""
