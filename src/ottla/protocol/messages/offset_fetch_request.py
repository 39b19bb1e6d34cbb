"""OffsetFetchRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class OffsetFetchRequest(Message):
    API_KEY = 9
    MIN_VERSION = 1
    MAX_VERSION = 10
    MAX_STABLE_VERSION = 10
    FLEXIBLE_FROM = 6
    READERS = {}
    WRITERS = {}
    __slots__ = ("group_id", "topics", "groups", "require_stable")
    SCHEMA = """
        group_id string 0-7
        topics []OffsetFetchRequestTopic 0-7 null:2-7
        groups []OffsetFetchRequestGroup 8+
        require_stable bool 7+
    """

    def __init__(self, *,
        group_id: str = "", topics: list[OffsetFetchRequestTopic] | None = UNSET,
        groups: list[OffsetFetchRequestGroup] = UNSET, require_stable: bool = False,
    ) -> None:
        self.group_id = group_id
        self.topics: list[OffsetFetchRequestTopic] | None = [] if topics is UNSET else topics
        self.groups: list[OffsetFetchRequestGroup] = [] if groups is UNSET else groups
        self.require_stable = require_stable


class OffsetFetchRequestTopic(Struct):
    __slots__ = ("name", "partition_indexes")
    SCHEMA = """
        name string 0-7
        partition_indexes []int32 0-7
    """

    def __init__(self, *, name: str = "", partition_indexes: list[int] = UNSET) -> None:
        self.name = name
        self.partition_indexes: list[int] = [] if partition_indexes is UNSET else partition_indexes


class OffsetFetchRequestGroup(Struct):
    __slots__ = ("group_id", "member_id", "member_epoch", "topics")
    SCHEMA = """
        group_id string 8+
        member_id string 9+ null:9+ default:null ignorable
        member_epoch int32 9+ default:-1 ignorable
        topics []OffsetFetchRequestTopics 8+ null:8+
    """

    def __init__(self, *,
        group_id: str = "", member_id: str | None = None, member_epoch: int = -1,
        topics: list[OffsetFetchRequestTopics] | None = UNSET,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.topics: list[OffsetFetchRequestTopics] | None = [] if topics is UNSET else topics


class OffsetFetchRequestTopics(Struct):
    __slots__ = ("name", "topic_id", "partition_indexes")
    SCHEMA = """
        name string 8-9 ignorable
        topic_id uuid 10+ ignorable
        partition_indexes []int32 8+
    """

    def __init__(self, *,
        name: str = "", topic_id: bytes = ZERO_UUID, partition_indexes: list[int] = UNSET,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_indexes: list[int] = [] if partition_indexes is UNSET else partition_indexes
