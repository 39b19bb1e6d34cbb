"""ShareGroupTargetAssignmentMemberValue, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class ShareGroupTargetAssignmentMemberValue(Message):
    API_KEY = 13
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("topic_partitions",)
    SCHEMA = """
        topic_partitions []TopicPartition 0+
    """

    def __init__(self, *, topic_partitions: list[TopicPartition] = UNSET) -> None:
        self.topic_partitions: list[TopicPartition] = [] if topic_partitions is UNSET else topic_partitions


class TopicPartition(Struct):
    __slots__ = ("topic_id", "partitions")
    SCHEMA = """
        topic_id uuid 0+
        partitions []int32 0+
    """

    def __init__(self, *, topic_id: bytes = ZERO_UUID, partitions: list[int] = UNSET) -> None:
        self.topic_id = topic_id
        self.partitions: list[int] = [] if partitions is UNSET else partitions
