"""FetchResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Records, Struct, UNSET, ZERO_UUID


class FetchResponse(Message):
    API_KEY = 1
    MIN_VERSION = 4
    MAX_VERSION = 18
    MAX_STABLE_VERSION = 18
    FLEXIBLE_FROM = 12
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "error_code", "session_id", "responses", "node_endpoints")
    SCHEMA = """
        throttle_time_ms int32 1+ ignorable
        error_code int16 7+ ignorable
        session_id int32 7+
        responses []FetchableTopicResponse 0+
        node_endpoints []NodeEndpoint 16+ tag:0:16+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, session_id: int = 0,
        responses: list[FetchableTopicResponse] = UNSET, node_endpoints: list[NodeEndpoint] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses: list[FetchableTopicResponse] = [] if responses is UNSET else responses
        self.node_endpoints: list[NodeEndpoint] = [] if node_endpoints is UNSET else node_endpoints


class FetchableTopicResponse(Struct):
    __slots__ = ("topic", "topic_id", "partitions")
    SCHEMA = """
        topic string 0-12 ignorable
        topic_id uuid 13+ ignorable
        partitions []PartitionData 0+
    """

    def __init__(self, *,
        topic: str = "", topic_id: bytes = ZERO_UUID, partitions: list[PartitionData] = UNSET,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions: list[PartitionData] = [] if partitions is UNSET else partitions


class PartitionData(Struct):
    __slots__ = (
        "partition_index", "error_code", "high_watermark", "last_stable_offset", "log_start_offset",
        "diverging_epoch", "current_leader", "snapshot_id", "aborted_transactions", "preferred_read_replica",
        "records",
    )
    SCHEMA = """
        partition_index int32 0+
        error_code int16 0+
        high_watermark int64 0+
        last_stable_offset int64 4+ default:-1 ignorable
        log_start_offset int64 5+ default:-1 ignorable
        diverging_epoch EpochEndOffset 12+ tag:0:12+
        current_leader LeaderIdAndEpoch 12+ tag:1:12+
        snapshot_id SnapshotId 12+ tag:2:12+
        aborted_transactions []AbortedTransaction 4+ null:4+ ignorable
        preferred_read_replica int32 11+ default:-1
        records records 0+ null:0+
    """

    def __init__(self, *,
        partition_index: int = 0, error_code: int = 0, high_watermark: int = 0, last_stable_offset: int = -1,
        log_start_offset: int = -1, diverging_epoch: EpochEndOffset = UNSET,
        current_leader: LeaderIdAndEpoch = UNSET, snapshot_id: SnapshotId = UNSET,
        aborted_transactions: list[AbortedTransaction] | None = UNSET, preferred_read_replica: int = -1,
        records: Records = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.diverging_epoch: EpochEndOffset = EpochEndOffset() if diverging_epoch is UNSET else diverging_epoch
        self.current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch() if current_leader is UNSET else current_leader
        self.snapshot_id: SnapshotId = SnapshotId() if snapshot_id is UNSET else snapshot_id
        self.aborted_transactions: list[AbortedTransaction] | None = [] if aborted_transactions is UNSET else aborted_transactions
        self.preferred_read_replica = preferred_read_replica
        self.records = records


class EpochEndOffset(Struct):
    __slots__ = ("epoch", "end_offset")
    SCHEMA = """
        epoch int32 12+ default:-1
        end_offset int64 12+ default:-1
    """

    def __init__(self, *, epoch: int = -1, end_offset: int = -1) -> None:
        self.epoch = epoch
        self.end_offset = end_offset


class LeaderIdAndEpoch(Struct):
    __slots__ = ("leader_id", "leader_epoch")
    SCHEMA = """
        leader_id int32 12+ default:-1
        leader_epoch int32 12+ default:-1
    """

    def __init__(self, *, leader_id: int = -1, leader_epoch: int = -1) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class SnapshotId(Struct):
    __slots__ = ("end_offset", "epoch")
    SCHEMA = """
        end_offset int64 0+ default:-1
        epoch int32 0+ default:-1
    """

    def __init__(self, *, end_offset: int = -1, epoch: int = -1) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class AbortedTransaction(Struct):
    __slots__ = ("producer_id", "first_offset")
    SCHEMA = """
        producer_id int64 4+
        first_offset int64 4+
    """

    def __init__(self, *, producer_id: int = 0, first_offset: int = 0) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset


class NodeEndpoint(Struct):
    __slots__ = ("node_id", "host", "port", "rack")
    SCHEMA = """
        node_id int32 16+
        host string 16+
        port int32 16+
        rack string 16+ null:16+ default:null
    """

    def __init__(self, *, node_id: int = 0, host: str = "", port: int = 0, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack
