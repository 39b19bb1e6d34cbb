"""TopicRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, ZERO_UUID


class TopicRecord(Message):
    API_KEY = 2
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("name", "topic_id")
    SCHEMA = """
        name string 0+
        topic_id uuid 0+
    """

    def __init__(self, *, name: str = "", topic_id: bytes = ZERO_UUID) -> None:
        self.name = name
        self.topic_id = topic_id
