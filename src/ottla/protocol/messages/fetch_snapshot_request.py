"""FetchSnapshotRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class FetchSnapshotRequest(Message):
    API_KEY = 59
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("cluster_id", "replica_id", "max_bytes", "topics")
    SCHEMA = """
        cluster_id string 0+ null:0+ tag:0:0+ default:null
        replica_id int32 0+ default:-1
        max_bytes int32 0+ default:2147483647
        topics []TopicSnapshot 0+
    """

    def __init__(self, *,
        cluster_id: str | None = None, replica_id: int = -1, max_bytes: int = 2147483647,
        topics: list[TopicSnapshot] = UNSET,
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.max_bytes = max_bytes
        self.topics: list[TopicSnapshot] = [] if topics is UNSET else topics


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
    __slots__ = ("partition", "current_leader_epoch", "snapshot_id", "position", "replica_directory_id")
    SCHEMA = """
        partition int32 0+
        current_leader_epoch int32 0+
        snapshot_id SnapshotId 0+
        position int64 0+
        replica_directory_id uuid 1+ tag:0:1+ ignorable
    """

    def __init__(self, *,
        partition: int = 0, current_leader_epoch: int = 0, snapshot_id: SnapshotId = UNSET, position: int = 0,
        replica_directory_id: bytes = ZERO_UUID,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.snapshot_id: SnapshotId = SnapshotId() if snapshot_id is UNSET else snapshot_id
        self.position = position
        self.replica_directory_id = replica_directory_id


class SnapshotId(Struct):
    __slots__ = ("end_offset", "epoch")
    SCHEMA = """
        end_offset int64 0+
        epoch int32 0+
    """

    def __init__(self, *, end_offset: int = 0, epoch: int = 0) -> None:
        self.end_offset = end_offset
        self.epoch = epoch
