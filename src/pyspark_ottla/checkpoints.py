"""Checkpoints and outputs that do not match."""

from __future__ import annotations


class CheckpointBehindError(RuntimeError):
    """A later batch is already committed: the checkpoint is older than the output."""
