"""EndQuorumEpochRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class EndQuorumEpochRequest(Message):
    API_KEY = 54
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 1
    READERS = {}
    WRITERS = {}
    __slots__ = ("cluster_id", "topics", "leader_endpoints")
    SCHEMA = """
        cluster_id string 0+ null:0+ default:null
        topics []TopicData 0+
        leader_endpoints []LeaderEndpoint 1+ ignorable
    """

    def __init__(self, *,
        cluster_id: str | None = None, topics: list[TopicData] = UNSET,
        leader_endpoints: list[LeaderEndpoint] = UNSET,
    ) -> None:
        self.cluster_id = cluster_id
        self.topics: list[TopicData] = [] if topics is UNSET else topics
        self.leader_endpoints: list[LeaderEndpoint] = [] if leader_endpoints is UNSET else leader_endpoints


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
        "partition_index", "leader_id", "leader_epoch", "preferred_successors", "preferred_candidates",
    )
    SCHEMA = """
        partition_index int32 0+
        leader_id int32 0+
        leader_epoch int32 0+
        preferred_successors []int32 0 ignorable
        preferred_candidates []ReplicaInfo 1+ ignorable
    """

    def __init__(self, *,
        partition_index: int = 0, leader_id: int = 0, leader_epoch: int = 0,
        preferred_successors: list[int] = UNSET, preferred_candidates: list[ReplicaInfo] = UNSET,
    ) -> None:
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.preferred_successors: list[int] = [] if preferred_successors is UNSET else preferred_successors
        self.preferred_candidates: list[ReplicaInfo] = [] if preferred_candidates is UNSET else preferred_candidates


class ReplicaInfo(Struct):
    __slots__ = ("candidate_id", "candidate_directory_id")
    SCHEMA = """
        candidate_id int32 1+
        candidate_directory_id uuid 1+
    """

    def __init__(self, *, candidate_id: int = 0, candidate_directory_id: bytes = ZERO_UUID) -> None:
        self.candidate_id = candidate_id
        self.candidate_directory_id = candidate_directory_id


class LeaderEndpoint(Struct):
    __slots__ = ("name", "host", "port")
    SCHEMA = """
        name string 1+
        host string 1+
        port uint16 1+
    """

    def __init__(self, *, name: str = "", host: str = "", port: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port
