"""KIP-848 consumer groups: the coordinator assigns partitions, members reconcile independently."""
