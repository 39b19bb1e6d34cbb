"""ControlRecordTypeSchema, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class ControlRecordTypeSchema(Message):
    API_KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 32767
    READERS = {}
    WRITERS = {}
    __slots__ = ("type",)
    SCHEMA = """
        type int16 0+
    """

    def __init__(self, *, type: int = 0) -> None:
        self.type = type
