"""Decisions on partitions: leaders, in-sync replicas, reassignments, directories."""
