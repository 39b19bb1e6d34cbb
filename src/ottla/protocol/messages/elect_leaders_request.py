"""ElectLeadersRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class ElectLeadersRequest(Message):
    API_KEY = 43
    MIN_VERSION = 0
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("election_type", "topic_partitions", "timeout_ms")
    SCHEMA = """
        election_type int8 1+
        topic_partitions []TopicPartitions 0+ null:0+
        timeout_ms int32 0+ default:60000
    """

    def __init__(self, *,
        election_type: int = 0, topic_partitions: list[TopicPartitions] | None = UNSET,
        timeout_ms: int = 60000,
    ) -> None:
        self.election_type = election_type
        self.topic_partitions: list[TopicPartitions] | None = [] if topic_partitions is UNSET else topic_partitions
        self.timeout_ms = timeout_ms


class TopicPartitions(Struct):
    __slots__ = ("topic", "partitions")
    SCHEMA = """
        topic string 0+
        partitions []int32 0+
    """

    def __init__(self, *, topic: str = "", partitions: list[int] = UNSET) -> None:
        self.topic = topic
        self.partitions: list[int] = [] if partitions is UNSET else partitions
