"""LegacyOffsetCommitValue, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class LegacyOffsetCommitValue(Message):
    API_KEY = 0
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 32767
    READERS = {}
    WRITERS = {}
    __slots__ = ("offset", "metadata", "commit_timestamp")
    SCHEMA = """
        offset int64 0
        metadata string 0
        commit_timestamp int64 0
    """

    def __init__(self, *, offset: int = 0, metadata: str = "", commit_timestamp: int = 0) -> None:
        self.offset = offset
        self.metadata = metadata
        self.commit_timestamp = commit_timestamp
