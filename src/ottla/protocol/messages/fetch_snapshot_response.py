"""FetchSnapshotResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Records, Struct, UNSET


class FetchSnapshotResponse(Message):
    API_KEY = 59
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "error_code", "topics", "node_endpoints")
    SCHEMA = """
        throttle_time_ms int32 0+ ignorable
        error_code int16 0+
        topics []TopicSnapshot 0+
        node_endpoints []NodeEndpoint 1+ tag:0:1+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, topics: list[TopicSnapshot] = UNSET,
        node_endpoints: list[NodeEndpoint] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.topics: list[TopicSnapshot] = [] if topics is UNSET else topics
        self.node_endpoints: list[NodeEndpoint] = [] if node_endpoints is UNSET else node_endpoints


class TopicSnapshot(Struct):
    __slots__ = ("name", "partitions")
    SCHEMA = """
        name string 0+
        partitions []PartitionSnapshot 0+
    """

    def __init__(self, *, name: str = "", partitions: list[PartitionSnapshot] = UNSET) -> None:
        self.name = name
        self.partitions: list[PartitionSnapshot] = [] if partitions is UNSET else partitions


class PartitionSnapshot(Struct):
    __slots__ = (
        "index", "error_code", "snapshot_id", "current_leader", "size", "position", "unaligned_records",
    )
    SCHEMA = """
        index int32 0+
        error_code int16 0+
        snapshot_id SnapshotId 0+
        current_leader LeaderIdAndEpoch 0+ tag:0:0+
        size int64 0+
        position int64 0+
        unaligned_records records 0+
    """

    def __init__(self, *,
        index: int = 0, error_code: int = 0, snapshot_id: SnapshotId = UNSET,
        current_leader: LeaderIdAndEpoch = UNSET, size: int = 0, position: int = 0,
        unaligned_records: Records = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.snapshot_id: SnapshotId = SnapshotId() if snapshot_id is UNSET else snapshot_id
        self.current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch() if current_leader is UNSET else current_leader
        self.size = size
        self.position = position
        self.unaligned_records = unaligned_records


class SnapshotId(Struct):
    __slots__ = ("end_offset", "epoch")
    SCHEMA = """
        end_offset int64 0+
        epoch int32 0+
    """

    def __init__(self, *, end_offset: int = 0, epoch: int = 0) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class LeaderIdAndEpoch(Struct):
    __slots__ = ("leader_id", "leader_epoch")
    SCHEMA = """
        leader_id int32 0+
        leader_epoch int32 0+
    """

    def __init__(self, *, leader_id: int = 0, leader_epoch: int = 0) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class NodeEndpoint(Struct):
    __slots__ = ("node_id", "host", "port")
    SCHEMA = """
        node_id int32 1+
        host string 1+
        port uint16 1+
    """

    def __init__(self, *, node_id: int = 0, host: str = "", port: int = 0) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
