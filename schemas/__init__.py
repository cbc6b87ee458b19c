"""Shapes only: tables, settings, the landing envelope, Kafka's wire layouts, and the words stored in columns."""
