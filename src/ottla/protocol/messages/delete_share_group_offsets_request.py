"""DeleteShareGroupOffsetsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class DeleteShareGroupOffsetsRequest(Message):
    API_KEY = 92
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("group_id", "topics")
    SCHEMA = """
        group_id string 0+
        topics []DeleteShareGroupOffsetsRequestTopic 0+
    """

    def __init__(self, *,
        group_id: str = "", topics: list[DeleteShareGroupOffsetsRequestTopic] = UNSET,
    ) -> None:
        self.group_id = group_id
        self.topics: list[DeleteShareGroupOffsetsRequestTopic] = [] if topics is UNSET else topics


class DeleteShareGroupOffsetsRequestTopic(Struct):
    __slots__ = ("topic_name",)
    SCHEMA = """
        topic_name string 0+
    """

    def __init__(self, *, topic_name: str = "") -> None:
        self.topic_name = topic_name
