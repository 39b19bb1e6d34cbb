"""BeginQuorumEpochRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class BeginQuorumEpochRequest(Message):
    API_KEY = 53
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 1
    READERS = {}
    WRITERS = {}
    __slots__ = ("cluster_id", "voter_id", "topics", "leader_endpoints")
    SCHEMA = """
        cluster_id string 0+ null:0+ default:null
        voter_id int32 1+ default:-1 ignorable
        topics []TopicData 0+
        leader_endpoints []LeaderEndpoint 1+ ignorable
    """

    def __init__(self, *,
        cluster_id: str | None = None, voter_id: int = -1, topics: list[TopicData] = UNSET,
        leader_endpoints: list[LeaderEndpoint] = UNSET,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
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
    __slots__ = ("partition_index", "voter_directory_id", "leader_id", "leader_epoch")
    SCHEMA = """
        partition_index int32 0+
        voter_directory_id uuid 1+ ignorable
        leader_id int32 0+
        leader_epoch int32 0+
    """

    def __init__(self, *,
        partition_index: int = 0, voter_directory_id: bytes = ZERO_UUID, leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.voter_directory_id = voter_directory_id
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


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
