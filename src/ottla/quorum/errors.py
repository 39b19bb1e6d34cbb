"""What can be wrong with the metadata log and its files."""

from __future__ import annotations


class QuorumError(Exception):
    """The metadata of the cluster cannot be read back whole: starting without it would lose the cluster."""
