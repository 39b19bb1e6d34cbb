"""Errors of the metadata log and its files."""

from __future__ import annotations


class QuorumError(Exception):
    """The cluster metadata cannot be read completely: starting without it would lose the cluster."""
