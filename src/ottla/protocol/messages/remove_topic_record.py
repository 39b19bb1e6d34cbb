"""RemoveTopicRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, ZERO_UUID


class RemoveTopicRecord(Message):
    API_KEY = 9
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("topic_id",)
    SCHEMA = """
        topic_id uuid 0+
    """

    def __init__(self, *, topic_id: bytes = ZERO_UUID) -> None:
        self.topic_id = topic_id
