"""AbortedTxn, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class AbortedTxn(Message):
    API_KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 32767
    READERS = {}
    WRITERS = {}
    __slots__ = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
    SCHEMA = """
        producer_id int64 0+
        first_offset int64 0+
        last_offset int64 0+
        last_stable_offset int64 0+
    """

    def __init__(self, *,
        producer_id: int = 0, first_offset: int = 0, last_offset: int = 0, last_stable_offset: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.last_stable_offset = last_stable_offset
