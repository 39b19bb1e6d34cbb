"""RemoveAccessControlEntryRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, ZERO_UUID


class RemoveAccessControlEntryRecord(Message):
    API_KEY = 19
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("id",)
    SCHEMA = """
        id uuid 0+
    """

    def __init__(self, *, id: bytes = ZERO_UUID) -> None:
        self.id = id
