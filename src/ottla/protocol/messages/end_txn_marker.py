"""EndTxnMarker, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class EndTxnMarker(Message):
    API_KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 32767
    READERS = {}
    WRITERS = {}
    __slots__ = ("coordinator_epoch",)
    SCHEMA = """
        coordinator_epoch int32 0+
    """

    def __init__(self, *, coordinator_epoch: int = 0) -> None:
        self.coordinator_epoch = coordinator_epoch
