"""Ottla: a distributed, replicated, append-only log that speaks Kafka's wire protocol."""

__version__ = "0.2.0"  # a constant: reading the package metadata takes 50 ms at every start
