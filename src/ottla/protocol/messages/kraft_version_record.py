"""KRaftVersionRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class KRaftVersionRecord(Message):
    API_KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("version", "kraft_version")
    SCHEMA = """
        version int16 0+
        kraft_version int16 0+
    """

    def __init__(self, *, version: int = 0, kraft_version: int = 0) -> None:
        self.version = version
        self.kraft_version = kraft_version
