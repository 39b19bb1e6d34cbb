"""ClearElrRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class ClearElrRecord(Message):
    API_KEY = 28
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("topic_name",)
    SCHEMA = """
        topic_name string 0+
    """

    def __init__(self, *, topic_name: str = "") -> None:
        self.topic_name = topic_name
