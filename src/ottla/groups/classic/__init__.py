"""The classic group protocol: members join, a leader among them assigns, and a generation is born."""
