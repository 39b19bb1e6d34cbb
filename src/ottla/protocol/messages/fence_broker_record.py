"""FenceBrokerRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class FenceBrokerRecord(Message):
    API_KEY = 7
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("id", "epoch")
    SCHEMA = """
        id int32 0+
        epoch int64 0+
    """

    def __init__(self, *, id: int = 0, epoch: int = 0) -> None:
        self.id = id
        self.epoch = epoch
