"""Sparse offset and time indexes and the transaction index of a segment."""
