"""Live clusters: the only place that knows a Kafka client."""
