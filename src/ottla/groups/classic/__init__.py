"""The classic group protocol: members join, and a leader among them computes the assignment."""
