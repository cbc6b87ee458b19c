"""Declarations only: tables, settings, formats of captures, Kafka's binary layouts, and the values stored in columns."""
