"""RemoteLogSegmentMetadataRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class RemoteLogSegmentMetadataRecord(Message):
    API_KEY = 0
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "remote_log_segment_id", "start_offset", "end_offset", "broker_id", "max_timestamp_ms",
        "event_timestamp_ms", "segment_leader_epochs", "segment_size_in_bytes", "custom_metadata",
        "remote_log_segment_state", "txn_index_empty",
    )
    SCHEMA = """
        remote_log_segment_id RemoteLogSegmentIdEntry 0+
        start_offset int64 0+
        end_offset int64 0+
        broker_id int32 0+
        max_timestamp_ms int64 0+
        event_timestamp_ms int64 0+
        segment_leader_epochs []SegmentLeaderEpochEntry 0+
        segment_size_in_bytes int32 0+
        custom_metadata bytes 0+ null:0+ default:null
        remote_log_segment_state int8 0+
        txn_index_empty bool 0+ tag:0:0+
    """

    def __init__(self, *,
        remote_log_segment_id: RemoteLogSegmentIdEntry = UNSET, start_offset: int = 0, end_offset: int = 0,
        broker_id: int = 0, max_timestamp_ms: int = 0, event_timestamp_ms: int = 0,
        segment_leader_epochs: list[SegmentLeaderEpochEntry] = UNSET, segment_size_in_bytes: int = 0,
        custom_metadata: bytes | None = None, remote_log_segment_state: int = 0,
        txn_index_empty: bool = False,
    ) -> None:
        self.remote_log_segment_id: RemoteLogSegmentIdEntry = RemoteLogSegmentIdEntry() if remote_log_segment_id is UNSET else remote_log_segment_id
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.broker_id = broker_id
        self.max_timestamp_ms = max_timestamp_ms
        self.event_timestamp_ms = event_timestamp_ms
        self.segment_leader_epochs: list[SegmentLeaderEpochEntry] = [] if segment_leader_epochs is UNSET else segment_leader_epochs
        self.segment_size_in_bytes = segment_size_in_bytes
        self.custom_metadata = custom_metadata
        self.remote_log_segment_state = remote_log_segment_state
        self.txn_index_empty = txn_index_empty


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


class SegmentLeaderEpochEntry(Struct):
    __slots__ = ("leader_epoch", "offset")
    SCHEMA = """
        leader_epoch int32 0+
        offset int64 0+
    """

    def __init__(self, *, leader_epoch: int = 0, offset: int = 0) -> None:
        self.leader_epoch = leader_epoch
        self.offset = offset
