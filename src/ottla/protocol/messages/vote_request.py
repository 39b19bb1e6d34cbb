"""VoteRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class VoteRequest(Message):
    API_KEY = 52
    MIN_VERSION = 0
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("cluster_id", "voter_id", "topics")
    SCHEMA = """
        cluster_id string 0+ null:0+ default:null
        voter_id int32 1+ default:-1 ignorable
        topics []TopicData 0+
    """

    def __init__(self, *,
        cluster_id: str | None = None, voter_id: int = -1, topics: list[TopicData] = UNSET,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.topics: list[TopicData] = [] if topics is UNSET else topics


class TopicData(Struct):
    __slots__ = ("topic_name", "partitions")
    SCHEMA = """
        topic_name string 0+
        partitions []PartitionData 0+
    """

    def __init__(self, *, topic_name: str = "", partitions: list[PartitionData] = UNSET) -> None:
        self.topic_name = topic_name
        self.partitions: list[PartitionData] = [] if partitions is UNSET else partitions


class PartitionData(Struct):
    __slots__ = (
        "partition_index", "replica_epoch", "replica_id", "replica_directory_id", "voter_directory_id",
        "last_offset_epoch", "last_offset", "pre_vote",
    )
    SCHEMA = """
        partition_index int32 0+
        replica_epoch int32 0+
        replica_id int32 0+
        replica_directory_id uuid 1+ ignorable
        voter_directory_id uuid 1+ ignorable
        last_offset_epoch int32 0+
        last_offset int64 0+
        pre_vote bool 2+
    """

    def __init__(self, *,
        partition_index: int = 0, replica_epoch: int = 0, replica_id: int = 0,
        replica_directory_id: bytes = ZERO_UUID, voter_directory_id: bytes = ZERO_UUID,
        last_offset_epoch: int = 0, last_offset: int = 0, pre_vote: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.replica_epoch = replica_epoch
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.voter_directory_id = voter_directory_id
        self.last_offset_epoch = last_offset_epoch
        self.last_offset = last_offset
        self.pre_vote = pre_vote
