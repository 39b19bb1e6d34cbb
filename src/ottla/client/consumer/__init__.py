"""The consumer: fetching, group membership, committed offsets."""
