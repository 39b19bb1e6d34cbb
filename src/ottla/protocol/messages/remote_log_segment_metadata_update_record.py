"""RemoteLogSegmentMetadataUpdateRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class RemoteLogSegmentMetadataUpdateRecord(Message):
    API_KEY = 1
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "remote_log_segment_id", "broker_id", "event_timestamp_ms", "custom_metadata",
        "remote_log_segment_state",
    )
    SCHEMA = """
        remote_log_segment_id RemoteLogSegmentIdEntry 0+
        broker_id int32 0+
        event_timestamp_ms int64 0+
        custom_metadata bytes 0+ null:0+ default:null
        remote_log_segment_state int8 0+
    """

    def __init__(self, *,
        remote_log_segment_id: RemoteLogSegmentIdEntry = UNSET, broker_id: int = 0,
        event_timestamp_ms: int = 0, custom_metadata: bytes | None = None, remote_log_segment_state: int = 0,
    ) -> None:
        self.remote_log_segment_id: RemoteLogSegmentIdEntry = RemoteLogSegmentIdEntry() if remote_log_segment_id is UNSET else remote_log_segment_id
        self.broker_id = broker_id
        self.event_timestamp_ms = event_timestamp_ms
        self.custom_metadata = custom_metadata
        self.remote_log_segment_state = remote_log_segment_state


class RemoteLogSegmentIdEntry(Struct):
    __slots__ = ("topic_id_partition", "id")
    SCHEMA = """
        topic_id_partition TopicIdPartitionEntry 0+
        id uuid 0+
    """

    def __init__(self, *, topic_id_partition: TopicIdPartitionEntry = UNSET, id: bytes = ZERO_UUID) -> None:
        self.topic_id_partition: TopicIdPartitionEntry = TopicIdPartitionEntry() if topic_id_partition is UNSET else topic_id_partition
        self.id = id


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
