"""Ottla: a distributed, replicated, append-only log that speaks Kafka's wire protocol."""
