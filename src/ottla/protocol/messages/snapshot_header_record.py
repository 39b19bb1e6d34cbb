"""SnapshotHeaderRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class SnapshotHeaderRecord(Message):
    API_KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("version", "last_contained_log_timestamp")
    SCHEMA = """
        version int16 0+
        last_contained_log_timestamp int64 0+
    """

    def __init__(self, *, version: int = 0, last_contained_log_timestamp: int = 0) -> None:
        self.version = version
        self.last_contained_log_timestamp = last_contained_log_timestamp
