"""RemotePartitionDeleteMetadataRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class RemotePartitionDeleteMetadataRecord(Message):
    API_KEY = 2
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("topic_id_partition", "broker_id", "event_timestamp_ms", "remote_partition_delete_state")
    SCHEMA = """
        topic_id_partition TopicIdPartitionEntry 0+
        broker_id int32 0+
        event_timestamp_ms int64 0+
        remote_partition_delete_state int8 0+
    """

    def __init__(self, *,
        topic_id_partition: TopicIdPartitionEntry = UNSET, broker_id: int = 0, event_timestamp_ms: int = 0,
        remote_partition_delete_state: int = 0,
    ) -> None:
        self.topic_id_partition: TopicIdPartitionEntry = TopicIdPartitionEntry() if topic_id_partition is UNSET else topic_id_partition
        self.broker_id = broker_id
        self.event_timestamp_ms = event_timestamp_ms
        self.remote_partition_delete_state = remote_partition_delete_state


class TopicIdPartitionEntry(Struct):
    __slots__ = ("name", "id", "partition")
    SCHEMA = """
        name string 0+
        id uuid 0+
        partition int32 0+
    """

    def __init__(self, *, name: str = "", id: bytes = ZERO_UUID, partition: int = 0) -> None:
        self.name = name
        self.id = id
        self.partition = partition
