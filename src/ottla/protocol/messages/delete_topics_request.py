"""DeleteTopicsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class DeleteTopicsRequest(Message):
    API_KEY = 20
    MIN_VERSION = 1
    MAX_VERSION = 6
    MAX_STABLE_VERSION = 6
    FLEXIBLE_FROM = 4
    READERS = {}
    WRITERS = {}
    __slots__ = ("topics", "topic_names", "timeout_ms")
    SCHEMA = """
        topics []DeleteTopicState 6+
        topic_names []string 0-5 ignorable
        timeout_ms int32 0+
    """

    def __init__(self, *,
        topics: list[DeleteTopicState] = UNSET, topic_names: list[str] = UNSET, timeout_ms: int = 0,
    ) -> None:
        self.topics: list[DeleteTopicState] = [] if topics is UNSET else topics
        self.topic_names: list[str] = [] if topic_names is UNSET else topic_names
        self.timeout_ms = timeout_ms


class DeleteTopicState(Struct):
    __slots__ = ("name", "topic_id")
    SCHEMA = """
        name string 6+ null:6+ default:null
        topic_id uuid 6+
    """

    def __init__(self, *, name: str | None = None, topic_id: bytes = ZERO_UUID) -> None:
        self.name = name
        self.topic_id = topic_id
