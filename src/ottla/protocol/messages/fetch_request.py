"""FetchRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class FetchRequest(Message):
    API_KEY = 1
    MIN_VERSION = 4
    MAX_VERSION = 18
    MAX_STABLE_VERSION = 18
    FLEXIBLE_FROM = 12
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "cluster_id", "replica_id", "replica_state", "max_wait_ms", "min_bytes", "max_bytes",
        "isolation_level", "session_id", "session_epoch", "topics", "forgotten_topics_data", "rack_id",
    )
    SCHEMA = """
        cluster_id string 12+ null:12+ tag:0:12+ default:null ignorable
        replica_id int32 0-14 default:-1
        replica_state ReplicaState 15+ tag:1:15+
        max_wait_ms int32 0+
        min_bytes int32 0+
        max_bytes int32 3+ default:2147483647 ignorable
        isolation_level int8 4+ ignorable
        session_id int32 7+ ignorable
        session_epoch int32 7+ default:-1 ignorable
        topics []FetchTopic 0+
        forgotten_topics_data []ForgottenTopic 7+
        rack_id string 11+ ignorable
    """

    def __init__(self, *,
        cluster_id: str | None = None, replica_id: int = -1, replica_state: ReplicaState = UNSET,
        max_wait_ms: int = 0, min_bytes: int = 0, max_bytes: int = 2147483647, isolation_level: int = 0,
        session_id: int = 0, session_epoch: int = -1, topics: list[FetchTopic] = UNSET,
        forgotten_topics_data: list[ForgottenTopic] = UNSET, rack_id: str = "",
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.replica_state: ReplicaState = ReplicaState() if replica_state is UNSET else replica_state
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics: list[FetchTopic] = [] if topics is UNSET else topics
        self.forgotten_topics_data: list[ForgottenTopic] = [] if forgotten_topics_data is UNSET else forgotten_topics_data
        self.rack_id = rack_id


class ReplicaState(Struct):
    __slots__ = ("replica_id", "replica_epoch")
    SCHEMA = """
        replica_id int32 15+ default:-1
        replica_epoch int64 15+ default:-1
    """

    def __init__(self, *, replica_id: int = -1, replica_epoch: int = -1) -> None:
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch


class FetchTopic(Struct):
    __slots__ = ("topic", "topic_id", "partitions")
    SCHEMA = """
        topic string 0-12 ignorable
        topic_id uuid 13+ ignorable
        partitions []FetchPartition 0+
    """

    def __init__(self, *,
        topic: str = "", topic_id: bytes = ZERO_UUID, partitions: list[FetchPartition] = UNSET,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions: list[FetchPartition] = [] if partitions is UNSET else partitions


class FetchPartition(Struct):
    __slots__ = (
        "partition", "current_leader_epoch", "fetch_offset", "last_fetched_epoch", "log_start_offset",
        "partition_max_bytes", "replica_directory_id", "high_watermark",
    )
    SCHEMA = """
        partition int32 0+
        current_leader_epoch int32 9+ default:-1 ignorable
        fetch_offset int64 0+
        last_fetched_epoch int32 12+ default:-1
        log_start_offset int64 5+ default:-1 ignorable
        partition_max_bytes int32 0+
        replica_directory_id uuid 17+ tag:0:17+ ignorable
        high_watermark int64 18+ tag:1:18+ default:9223372036854775807 ignorable
    """

    def __init__(self, *,
        partition: int = 0, current_leader_epoch: int = -1, fetch_offset: int = 0,
        last_fetched_epoch: int = -1, log_start_offset: int = -1, partition_max_bytes: int = 0,
        replica_directory_id: bytes = ZERO_UUID, high_watermark: int = 9223372036854775807,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes
        self.replica_directory_id = replica_directory_id
        self.high_watermark = high_watermark


class ForgottenTopic(Struct):
    __slots__ = ("topic", "topic_id", "partitions")
    SCHEMA = """
        topic string 7-12 ignorable
        topic_id uuid 13+ ignorable
        partitions []int32 7+
    """

    def __init__(self, *,
        topic: str = "", topic_id: bytes = ZERO_UUID, partitions: list[int] = UNSET,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions: list[int] = [] if partitions is UNSET else partitions
