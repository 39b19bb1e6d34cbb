"""OffsetFetchResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class OffsetFetchResponse(Message):
    API_KEY = 9
    MIN_VERSION = 1
    MAX_VERSION = 10
    MAX_STABLE_VERSION = 10
    FLEXIBLE_FROM = 6
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "topics", "error_code", "groups")
    SCHEMA = """
        throttle_time_ms int32 3+ ignorable
        topics []OffsetFetchResponseTopic 0-7
        error_code int16 2-7 ignorable
        groups []OffsetFetchResponseGroup 8+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, topics: list[OffsetFetchResponseTopic] = UNSET, error_code: int = 0,
        groups: list[OffsetFetchResponseGroup] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[OffsetFetchResponseTopic] = [] if topics is UNSET else topics
        self.error_code = error_code
        self.groups: list[OffsetFetchResponseGroup] = [] if groups is UNSET else groups


class OffsetFetchResponseTopic(Struct):
    __slots__ = ("name", "partitions")
    SCHEMA = """
        name string 0-7
        partitions []OffsetFetchResponsePartition 0-7
    """

    def __init__(self, *, name: str = "", partitions: list[OffsetFetchResponsePartition] = UNSET) -> None:
        self.name = name
        self.partitions: list[OffsetFetchResponsePartition] = [] if partitions is UNSET else partitions


class OffsetFetchResponsePartition(Struct):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")
    SCHEMA = """
        partition_index int32 0-7
        committed_offset int64 0-7
        committed_leader_epoch int32 5-7 default:-1 ignorable
        metadata string 0-7 null:0-7
        error_code int16 0-7
    """

    def __init__(self, *,
        partition_index: int = 0, committed_offset: int = 0, committed_leader_epoch: int = -1,
        metadata: str | None = "", error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseGroup(Struct):
    __slots__ = ("group_id", "topics", "error_code")
    SCHEMA = """
        group_id string 8+
        topics []OffsetFetchResponseTopics 8+
        error_code int16 8+
    """

    def __init__(self, *,
        group_id: str = "", topics: list[OffsetFetchResponseTopics] = UNSET, error_code: int = 0,
    ) -> None:
        self.group_id = group_id
        self.topics: list[OffsetFetchResponseTopics] = [] if topics is UNSET else topics
        self.error_code = error_code


class OffsetFetchResponseTopics(Struct):
    __slots__ = ("name", "topic_id", "partitions")
    SCHEMA = """
        name string 8-9 ignorable
        topic_id uuid 10+ ignorable
        partitions []OffsetFetchResponsePartitions 8+
    """

    def __init__(self, *,
        name: str = "", topic_id: bytes = ZERO_UUID, partitions: list[OffsetFetchResponsePartitions] = UNSET,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[OffsetFetchResponsePartitions] = [] if partitions is UNSET else partitions


class OffsetFetchResponsePartitions(Struct):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")
    SCHEMA = """
        partition_index int32 8+
        committed_offset int64 8+
        committed_leader_epoch int32 8+ default:-1 ignorable
        metadata string 8+ null:8+
        error_code int16 8+
    """

    def __init__(self, *,
        partition_index: int = 0, committed_offset: int = 0, committed_leader_epoch: int = -1,
        metadata: str | None = "", error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code
