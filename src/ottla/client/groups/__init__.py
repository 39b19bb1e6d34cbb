"""Consumer groups: membership protocols, committed offsets, descriptions."""
