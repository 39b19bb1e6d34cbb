"""Decisions on topics: create, delete, add partitions, place replicas."""
