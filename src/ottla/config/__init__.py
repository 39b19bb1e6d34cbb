"""Kafka's configuration properties: types, defaults, checks. Imports no other package of Ottla."""
