"""Machines of replication, and a cluster of them, in memory."""
