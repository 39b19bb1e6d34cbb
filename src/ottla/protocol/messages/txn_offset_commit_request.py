"""TxnOffsetCommitRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class TxnOffsetCommitRequest(Message):
    API_KEY = 28
    MIN_VERSION = 0
    MAX_VERSION = 6
    MAX_STABLE_VERSION = 6
    FLEXIBLE_FROM = 3
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "transactional_id", "group_id", "producer_id", "producer_epoch", "generation_id_or_member_epoch",
        "member_id", "group_instance_id", "topics",
    )
    SCHEMA = """
        transactional_id string 0+
        group_id string 0+
        producer_id int64 0+
        producer_epoch int16 0+
        generation_id_or_member_epoch int32 3+ default:-1
        member_id string 3+
        group_instance_id string 3+ null:3+ default:null
        topics []TxnOffsetCommitRequestTopic 0+
    """

    def __init__(self, *,
        transactional_id: str = "", group_id: str = "", producer_id: int = 0, producer_epoch: int = 0,
        generation_id_or_member_epoch: int = -1, member_id: str = "", group_instance_id: str | None = None,
        topics: list[TxnOffsetCommitRequestTopic] = UNSET,
    ) -> None:
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics: list[TxnOffsetCommitRequestTopic] = [] if topics is UNSET else topics


class TxnOffsetCommitRequestTopic(Struct):
    __slots__ = ("name", "topic_id", "partitions")
    SCHEMA = """
        name string 0-5 ignorable
        topic_id uuid 6+ ignorable
        partitions []TxnOffsetCommitRequestPartition 0+
    """

    def __init__(self, *,
        name: str = "", topic_id: bytes = ZERO_UUID,
        partitions: list[TxnOffsetCommitRequestPartition] = UNSET,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[TxnOffsetCommitRequestPartition] = [] if partitions is UNSET else partitions


class TxnOffsetCommitRequestPartition(Struct):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")
    SCHEMA = """
        partition_index int32 0+
        committed_offset int64 0+
        committed_leader_epoch int32 2+ default:-1 ignorable
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
