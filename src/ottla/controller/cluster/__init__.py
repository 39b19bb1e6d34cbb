"""Decisions on the cluster: configurations, features, producer ids, controllers."""
