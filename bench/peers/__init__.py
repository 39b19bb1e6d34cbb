"""Ottla beside Apache Kafka: same machine, same clients, same settings, in turns. `make bench-peers`."""
