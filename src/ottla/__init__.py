"""Ottla: a distributed, replicated, append-only log that speaks Kafka's wire protocol."""

__version__ = "0.1.0"  # a constant, because asking the package's metadata costs 50 ms at every start
