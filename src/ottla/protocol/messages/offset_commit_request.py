"""OffsetCommitRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class OffsetCommitRequest(Message):
    API_KEY = 8
    MIN_VERSION = 2
    MAX_VERSION = 10
    MAX_STABLE_VERSION = 10
    FLEXIBLE_FROM = 8
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "group_id", "generation_id_or_member_epoch", "member_id", "group_instance_id", "retention_time_ms",
        "topics",
    )
    SCHEMA = """
        group_id string 0+
        generation_id_or_member_epoch int32 1+ default:-1 ignorable
        member_id string 1+ ignorable
        group_instance_id string 7+ null:7+ default:null
        retention_time_ms int64 2-4 default:-1 ignorable
        topics []OffsetCommitRequestTopic 0+
    """

    def __init__(self, *,
        group_id: str = "", generation_id_or_member_epoch: int = -1, member_id: str = "",
        group_instance_id: str | None = None, retention_time_ms: int = -1,
        topics: list[OffsetCommitRequestTopic] = UNSET,
    ) -> None:
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.retention_time_ms = retention_time_ms
        self.topics: list[OffsetCommitRequestTopic] = [] if topics is UNSET else topics


class OffsetCommitRequestTopic(Struct):
    __slots__ = ("name", "topic_id", "partitions")
    SCHEMA = """
        name string 0-9 ignorable
        topic_id uuid 10+ ignorable
        partitions []OffsetCommitRequestPartition 0+
    """

    def __init__(self, *,
        name: str = "", topic_id: bytes = ZERO_UUID, partitions: list[OffsetCommitRequestPartition] = UNSET,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[OffsetCommitRequestPartition] = [] if partitions is UNSET else partitions


class OffsetCommitRequestPartition(Struct):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")
    SCHEMA = """
        partition_index int32 0+
        committed_offset int64 0+
        committed_leader_epoch int32 6+ default:-1 ignorable
        committed_metadata string 0+ null:0+
    """

    def __init__(self, *,
        partition_index: int = 0, committed_offset: int = 0, committed_leader_epoch: int = -1,
        committed_metadata: str | None = "",
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata
