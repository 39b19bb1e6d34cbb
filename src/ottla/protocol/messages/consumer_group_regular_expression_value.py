"""ConsumerGroupRegularExpressionValue, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, UNSET


class ConsumerGroupRegularExpressionValue(Message):
    API_KEY = 16
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("topics", "version", "timestamp")
    SCHEMA = """
        topics []string 0+
        version int64 0+
        timestamp int64 0+
    """

    def __init__(self, *, topics: list[str] = UNSET, version: int = 0, timestamp: int = 0) -> None:
        self.topics: list[str] = [] if topics is UNSET else topics
        self.version = version
        self.timestamp = timestamp
