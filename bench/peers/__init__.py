"""Ottla compared with Apache Kafka: same machine, same clients, same settings, alternating. `make
bench-peers`."""
