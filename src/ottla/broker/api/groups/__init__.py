"""APIs of consumer groups: membership, offsets, administration."""
