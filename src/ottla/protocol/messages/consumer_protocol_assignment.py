"""ConsumerProtocolAssignment, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class ConsumerProtocolAssignment(Message):
    API_KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 3
    MAX_STABLE_VERSION = 3
    FLEXIBLE_FROM = 32767
    READERS = {}
    WRITERS = {}
    __slots__ = ("assigned_partitions", "user_data")
    SCHEMA = """
        assigned_partitions []TopicPartition 0+
        user_data bytes 0+ null:0+ default:null
    """

    def __init__(self, *,
        assigned_partitions: list[TopicPartition] = UNSET, user_data: bytes | None = None,
    ) -> None:
        self.assigned_partitions: list[TopicPartition] = [] if assigned_partitions is UNSET else assigned_partitions
        self.user_data = user_data


class TopicPartition(Struct):
    __slots__ = ("topic", "partitions")
    SCHEMA = """
        topic string 0+
        partitions []int32 0+
    """

    def __init__(self, *, topic: str = "", partitions: list[int] = UNSET) -> None:
        self.topic = topic
        self.partitions: list[int] = [] if partitions is UNSET else partitions
