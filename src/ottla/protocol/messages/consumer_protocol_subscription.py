"""ConsumerProtocolSubscription, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class ConsumerProtocolSubscription(Message):
    API_KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 3
    MAX_STABLE_VERSION = 3
    FLEXIBLE_FROM = 32767
    READERS = {}
    WRITERS = {}
    __slots__ = ("topics", "user_data", "owned_partitions", "generation_id", "rack_id")
    SCHEMA = """
        topics []string 0+
        user_data bytes 0+ null:0+ default:null
        owned_partitions []TopicPartition 1+ ignorable
        generation_id int32 2+ default:-1 ignorable
        rack_id string 3+ null:3+ default:null ignorable
    """

    def __init__(self, *,
        topics: list[str] = UNSET, user_data: bytes | None = None,
        owned_partitions: list[TopicPartition] = UNSET, generation_id: int = -1, rack_id: str | None = None,
    ) -> None:
        self.topics: list[str] = [] if topics is UNSET else topics
        self.user_data = user_data
        self.owned_partitions: list[TopicPartition] = [] if owned_partitions is UNSET else owned_partitions
        self.generation_id = generation_id
        self.rack_id = rack_id


class TopicPartition(Struct):
    __slots__ = ("topic", "partitions")
    SCHEMA = """
        topic string 1+
        partitions []int32 1+
    """

    def __init__(self, *, topic: str = "", partitions: list[int] = UNSET) -> None:
        self.topic = topic
        self.partitions: list[int] = [] if partitions is UNSET else partitions
