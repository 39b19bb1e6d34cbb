"""DescribeShareGroupOffsetsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class DescribeShareGroupOffsetsResponse(Message):
    API_KEY = 90
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "groups")
    SCHEMA = """
        throttle_time_ms int32 0+
        groups []DescribeShareGroupOffsetsResponseGroup 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, groups: list[DescribeShareGroupOffsetsResponseGroup] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups: list[DescribeShareGroupOffsetsResponseGroup] = [] if groups is UNSET else groups


class DescribeShareGroupOffsetsResponseGroup(Struct):
    __slots__ = ("group_id", "topics", "error_code", "error_message")
    SCHEMA = """
        group_id string 0+
        topics []DescribeShareGroupOffsetsResponseTopic 0+
        error_code int16 0+
        error_message string 0+ null:0+ default:null
    """

    def __init__(self, *,
        group_id: str = "", topics: list[DescribeShareGroupOffsetsResponseTopic] = UNSET, error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.topics: list[DescribeShareGroupOffsetsResponseTopic] = [] if topics is UNSET else topics
        self.error_code = error_code
        self.error_message = error_message


class DescribeShareGroupOffsetsResponseTopic(Struct):
    __slots__ = ("topic_name", "topic_id", "partitions")
    SCHEMA = """
        topic_name string 0+
        topic_id uuid 0+
        partitions []DescribeShareGroupOffsetsResponsePartition 0+
    """

    def __init__(self, *,
        topic_name: str = "", topic_id: bytes = ZERO_UUID,
        partitions: list[DescribeShareGroupOffsetsResponsePartition] = UNSET,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partitions: list[DescribeShareGroupOffsetsResponsePartition] = [] if partitions is UNSET else partitions


class DescribeShareGroupOffsetsResponsePartition(Struct):
    __slots__ = ("partition_index", "start_offset", "leader_epoch", "lag", "error_code", "error_message")
    SCHEMA = """
        partition_index int32 0+
        start_offset int64 0+
        leader_epoch int32 0+
        lag int64 1+ default:-1 ignorable
        error_code int16 0+
        error_message string 0+ null:0+ default:null
    """

    def __init__(self, *,
        partition_index: int = 0, start_offset: int = 0, leader_epoch: int = 0, lag: int = -1,
        error_code: int = 0, error_message: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset
        self.leader_epoch = leader_epoch
        self.lag = lag
        self.error_code = error_code
        self.error_message = error_message
