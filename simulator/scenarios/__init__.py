"""Scenarios with a single node or a cluster, and what all scenarios share."""
