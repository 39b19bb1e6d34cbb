"""StreamsGroupHeartbeatRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class StreamsGroupHeartbeatRequest(Message):
    API_KEY = 88
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "group_id", "member_id", "member_epoch", "endpoint_information_epoch", "instance_id", "rack_id",
        "rebalance_timeout_ms", "topology", "active_tasks", "standby_tasks", "warmup_tasks", "process_id",
        "user_endpoint", "client_tags", "task_offsets", "task_end_offsets", "shutdown_application",
    )
    SCHEMA = """
        group_id string 0+
        member_id string 0+
        member_epoch int32 0+
        endpoint_information_epoch int32 0+
        instance_id string 0+ null:0+ default:null
        rack_id string 0+ null:0+ default:null
        rebalance_timeout_ms int32 0+ default:-1
        topology Topology 0+ null:0+ default:null
        active_tasks []TaskIds 0+ null:0+ default:null
        standby_tasks []TaskIds 0+ null:0+ default:null
        warmup_tasks []TaskIds 0+ null:0+ default:null
        process_id string 0+ null:0+ default:null
        user_endpoint Endpoint 0+ null:0+ default:null
        client_tags []KeyValue 0+ null:0+ default:null
        task_offsets []TaskOffset 0+ null:0+ default:null
        task_end_offsets []TaskOffset 0+ null:0+ default:null
        shutdown_application bool 0+
    """

    def __init__(self, *,
        group_id: str = "", member_id: str = "", member_epoch: int = 0, endpoint_information_epoch: int = 0,
        instance_id: str | None = None, rack_id: str | None = None, rebalance_timeout_ms: int = -1,
        topology: Topology | None = None, active_tasks: list[TaskIds] | None = None,
        standby_tasks: list[TaskIds] | None = None, warmup_tasks: list[TaskIds] | None = None,
        process_id: str | None = None, user_endpoint: Endpoint | None = None,
        client_tags: list[KeyValue] | None = None, task_offsets: list[TaskOffset] | None = None,
        task_end_offsets: list[TaskOffset] | None = None, shutdown_application: bool = False,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.endpoint_information_epoch = endpoint_information_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.topology = topology
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = client_tags
        self.task_offsets = task_offsets
        self.task_end_offsets = task_end_offsets
        self.shutdown_application = shutdown_application


class Topology(Struct):
    __slots__ = ("epoch", "subtopologies")
    SCHEMA = """
        epoch int32 0+
        subtopologies []Subtopology 0+
    """

    def __init__(self, *, epoch: int = 0, subtopologies: list[Subtopology] = UNSET) -> None:
        self.epoch = epoch
        self.subtopologies: list[Subtopology] = [] if subtopologies is UNSET else subtopologies


class Subtopology(Struct):
    __slots__ = (
        "subtopology_id", "source_topics", "source_topic_regex", "state_changelog_topics",
        "repartition_sink_topics", "repartition_source_topics", "copartition_groups",
    )
    SCHEMA = """
        subtopology_id string 0+
        source_topics []string 0+
        source_topic_regex []string 0+
        state_changelog_topics []TopicInfo 0+
        repartition_sink_topics []string 0+
        repartition_source_topics []TopicInfo 0+
        copartition_groups []CopartitionGroup 0+
    """

    def __init__(self, *,
        subtopology_id: str = "", source_topics: list[str] = UNSET, source_topic_regex: list[str] = UNSET,
        state_changelog_topics: list[TopicInfo] = UNSET, repartition_sink_topics: list[str] = UNSET,
        repartition_source_topics: list[TopicInfo] = UNSET,
        copartition_groups: list[CopartitionGroup] = UNSET,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics: list[str] = [] if source_topics is UNSET else source_topics
        self.source_topic_regex: list[str] = [] if source_topic_regex is UNSET else source_topic_regex
        self.state_changelog_topics: list[TopicInfo] = [] if state_changelog_topics is UNSET else state_changelog_topics
        self.repartition_sink_topics: list[str] = [] if repartition_sink_topics is UNSET else repartition_sink_topics
        self.repartition_source_topics: list[TopicInfo] = [] if repartition_source_topics is UNSET else repartition_source_topics
        self.copartition_groups: list[CopartitionGroup] = [] if copartition_groups is UNSET else copartition_groups


class TopicInfo(Struct):
    __slots__ = ("name", "partitions", "replication_factor", "topic_configs")
    SCHEMA = """
        name string 0+
        partitions int32 0+
        replication_factor int16 0+
        topic_configs []KeyValue 0+
    """

    def __init__(self, *,
        name: str = "", partitions: int = 0, replication_factor: int = 0,
        topic_configs: list[KeyValue] = UNSET,
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs: list[KeyValue] = [] if topic_configs is UNSET else topic_configs


class KeyValue(Struct):
    __slots__ = ("key", "value")
    SCHEMA = """
        key string 0+
        value string 0+
    """

    def __init__(self, *, key: str = "", value: str = "") -> None:
        self.key = key
        self.value = value


class CopartitionGroup(Struct):
    __slots__ = ("source_topics", "source_topic_regex", "repartition_source_topics")
    SCHEMA = """
        source_topics []int16 0+
        source_topic_regex []int16 0+
        repartition_source_topics []int16 0+
    """

    def __init__(self, *,
        source_topics: list[int] = UNSET, source_topic_regex: list[int] = UNSET,
        repartition_source_topics: list[int] = UNSET,
    ) -> None:
        self.source_topics: list[int] = [] if source_topics is UNSET else source_topics
        self.source_topic_regex: list[int] = [] if source_topic_regex is UNSET else source_topic_regex
        self.repartition_source_topics: list[int] = [] if repartition_source_topics is UNSET else repartition_source_topics


class TaskIds(Struct):
    __slots__ = ("subtopology_id", "partitions")
    SCHEMA = """
        subtopology_id string 0+
        partitions []int32 0+
    """

    def __init__(self, *, subtopology_id: str = "", partitions: list[int] = UNSET) -> None:
        self.subtopology_id = subtopology_id
        self.partitions: list[int] = [] if partitions is UNSET else partitions


class Endpoint(Struct):
    __slots__ = ("host", "port")
    SCHEMA = """
        host string 0+
        port uint16 0+
    """

    def __init__(self, *, host: str = "", port: int = 0) -> None:
        self.host = host
        self.port = port


class TaskOffset(Struct):
    __slots__ = ("subtopology_id", "partition", "offset")
    SCHEMA = """
        subtopology_id string 0+
        partition int32 0+
        offset int64 0+
    """

    def __init__(self, *, subtopology_id: str = "", partition: int = 0, offset: int = 0) -> None:
        self.subtopology_id = subtopology_id
        self.partition = partition
        self.offset = offset
