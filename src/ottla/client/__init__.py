"""A small wire client for any Kafka-compatible cluster."""
