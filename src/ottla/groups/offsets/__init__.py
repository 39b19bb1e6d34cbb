"""Committed offsets: commit, fetch, deletion, expiry and load."""
