"""Cluster metadata on this node: Raft driver, committed image, controller, registration."""
