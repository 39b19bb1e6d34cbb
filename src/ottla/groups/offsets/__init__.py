"""Committed offsets: how they are kept, committed, fetched, deleted and dropped with age."""
