"""Kafka's property names: types, defaults, checks. Knows no other room."""
