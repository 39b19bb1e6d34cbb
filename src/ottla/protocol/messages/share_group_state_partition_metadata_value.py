"""ShareGroupStatePartitionMetadataValue, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class ShareGroupStatePartitionMetadataValue(Message):
    API_KEY = 15
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("initializing_topics", "initialized_topics", "deleting_topics")
    SCHEMA = """
        initializing_topics []TopicPartitionsInfo 0+
        initialized_topics []TopicPartitionsInfo 0+
        deleting_topics []TopicInfo 0+
    """

    def __init__(self, *,
        initializing_topics: list[TopicPartitionsInfo] = UNSET,
        initialized_topics: list[TopicPartitionsInfo] = UNSET, deleting_topics: list[TopicInfo] = UNSET,
    ) -> None:
        self.initializing_topics: list[TopicPartitionsInfo] = [] if initializing_topics is UNSET else initializing_topics
        self.initialized_topics: list[TopicPartitionsInfo] = [] if initialized_topics is UNSET else initialized_topics
        self.deleting_topics: list[TopicInfo] = [] if deleting_topics is UNSET else deleting_topics


class TopicPartitionsInfo(Struct):
    __slots__ = ("topic_id", "topic_name", "partitions")
    SCHEMA = """
        topic_id uuid 0+
        topic_name string 0+
        partitions []int32 0+
    """

    def __init__(self, *,
        topic_id: bytes = ZERO_UUID, topic_name: str = "", partitions: list[int] = UNSET,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions: list[int] = [] if partitions is UNSET else partitions


class TopicInfo(Struct):
    __slots__ = ("topic_id", "topic_name")
    SCHEMA = """
        topic_id uuid 0+
        topic_name string 0+
    """

    def __init__(self, *, topic_id: bytes = ZERO_UUID, topic_name: str = "") -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
