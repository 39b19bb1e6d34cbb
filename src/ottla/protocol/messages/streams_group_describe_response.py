"""StreamsGroupDescribeResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class StreamsGroupDescribeResponse(Message):
    API_KEY = 89
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "groups")
    SCHEMA = """
        throttle_time_ms int32 0+
        groups []DescribedGroup 0+
    """

    def __init__(self, *, throttle_time_ms: int = 0, groups: list[DescribedGroup] = UNSET) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups: list[DescribedGroup] = [] if groups is UNSET else groups


class DescribedGroup(Struct):
    __slots__ = (
        "error_code", "error_message", "group_id", "group_state", "group_epoch", "assignment_epoch",
        "topology", "members", "authorized_operations", "topology_description", "topology_description_status",
        "assignor_name",
    )
    SCHEMA = """
        error_code int16 0+
        error_message string 0+ null:0+ default:null
        group_id string 0+
        group_state string 0+
        group_epoch int32 0+
        assignment_epoch int32 0+
        topology Topology 0+ null:0+ default:null
        members []Member 0+
        authorized_operations int32 0+ default:-2147483648
        topology_description TopologyDescription 1+ null:1+ default:null
        topology_description_status int8 1+
        assignor_name string 1+ null:1+ default:null ignorable
    """

    def __init__(self, *,
        error_code: int = 0, error_message: str | None = None, group_id: str = "", group_state: str = "",
        group_epoch: int = 0, assignment_epoch: int = 0, topology: Topology | None = None,
        members: list[Member] = UNSET, authorized_operations: int = -2147483648,
        topology_description: TopologyDescription | None = None, topology_description_status: int = 0,
        assignor_name: str | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.topology = topology
        self.members: list[Member] = [] if members is UNSET else members
        self.authorized_operations = authorized_operations
        self.topology_description = topology_description
        self.topology_description_status = topology_description_status
        self.assignor_name = assignor_name


class Topology(Struct):
    __slots__ = ("epoch", "subtopologies")
    SCHEMA = """
        epoch int32 0+
        subtopologies []Subtopology 0+ null:0+ default:null
    """

    def __init__(self, *, epoch: int = 0, subtopologies: list[Subtopology] | None = None) -> None:
        self.epoch = epoch
        self.subtopologies = subtopologies


class Subtopology(Struct):
    __slots__ = (
        "subtopology_id", "source_topics", "repartition_sink_topics", "state_changelog_topics",
        "repartition_source_topics",
    )
    SCHEMA = """
        subtopology_id string 0+
        source_topics []string 0+
        repartition_sink_topics []string 0+
        state_changelog_topics []TopicInfo 0+
        repartition_source_topics []TopicInfo 0+
    """

    def __init__(self, *,
        subtopology_id: str = "", source_topics: list[str] = UNSET,
        repartition_sink_topics: list[str] = UNSET, state_changelog_topics: list[TopicInfo] = UNSET,
        repartition_source_topics: list[TopicInfo] = UNSET,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics: list[str] = [] if source_topics is UNSET else source_topics
        self.repartition_sink_topics: list[str] = [] if repartition_sink_topics is UNSET else repartition_sink_topics
        self.state_changelog_topics: list[TopicInfo] = [] if state_changelog_topics is UNSET else state_changelog_topics
        self.repartition_source_topics: list[TopicInfo] = [] if repartition_source_topics is UNSET else repartition_source_topics


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


class Member(Struct):
    __slots__ = (
        "member_id", "member_epoch", "instance_id", "rack_id", "client_id", "client_host", "topology_epoch",
        "process_id", "user_endpoint", "client_tags", "task_offsets", "task_end_offsets", "assignment",
        "target_assignment", "is_classic",
    )
    SCHEMA = """
        member_id string 0+
        member_epoch int32 0+
        instance_id string 0+ null:0+ default:null
        rack_id string 0+ null:0+ default:null
        client_id string 0+
        client_host string 0+
        topology_epoch int32 0+
        process_id string 0+
        user_endpoint Endpoint 0+ null:0+ default:null
        client_tags []KeyValue 0+
        task_offsets []TaskOffset 0+
        task_end_offsets []TaskOffset 0+
        assignment Assignment 0+
        target_assignment Assignment 0+
        is_classic bool 0+
    """

    def __init__(self, *,
        member_id: str = "", member_epoch: int = 0, instance_id: str | None = None,
        rack_id: str | None = None, client_id: str = "", client_host: str = "", topology_epoch: int = 0,
        process_id: str = "", user_endpoint: Endpoint | None = None, client_tags: list[KeyValue] = UNSET,
        task_offsets: list[TaskOffset] = UNSET, task_end_offsets: list[TaskOffset] = UNSET,
        assignment: Assignment = UNSET, target_assignment: Assignment = UNSET, is_classic: bool = False,
    ) -> None:
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.topology_epoch = topology_epoch
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags: list[KeyValue] = [] if client_tags is UNSET else client_tags
        self.task_offsets: list[TaskOffset] = [] if task_offsets is UNSET else task_offsets
        self.task_end_offsets: list[TaskOffset] = [] if task_end_offsets is UNSET else task_end_offsets
        self.assignment: Assignment = Assignment() if assignment is UNSET else assignment
        self.target_assignment: Assignment = Assignment() if target_assignment is UNSET else target_assignment
        self.is_classic = is_classic


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


class Assignment(Struct):
    __slots__ = ("active_tasks", "standby_tasks", "warmup_tasks")
    SCHEMA = """
        active_tasks []TaskIds 0+
        standby_tasks []TaskIds 0+
        warmup_tasks []TaskIds 0+
    """

    def __init__(self, *,
        active_tasks: list[TaskIds] = UNSET, standby_tasks: list[TaskIds] = UNSET,
        warmup_tasks: list[TaskIds] = UNSET,
    ) -> None:
        self.active_tasks: list[TaskIds] = [] if active_tasks is UNSET else active_tasks
        self.standby_tasks: list[TaskIds] = [] if standby_tasks is UNSET else standby_tasks
        self.warmup_tasks: list[TaskIds] = [] if warmup_tasks is UNSET else warmup_tasks


class TaskIds(Struct):
    __slots__ = ("subtopology_id", "partitions")
    SCHEMA = """
        subtopology_id string 0+
        partitions []int32 0+
    """

    def __init__(self, *, subtopology_id: str = "", partitions: list[int] = UNSET) -> None:
        self.subtopology_id = subtopology_id
        self.partitions: list[int] = [] if partitions is UNSET else partitions


class TopologyDescription(Struct):
    __slots__ = ("subtopologies", "global_stores")
    SCHEMA = """
        subtopologies []TopologyDescriptionSubtopology 1+
        global_stores []TopologyDescriptionGlobalStore 1+
    """

    def __init__(self, *,
        subtopologies: list[TopologyDescriptionSubtopology] = UNSET,
        global_stores: list[TopologyDescriptionGlobalStore] = UNSET,
    ) -> None:
        self.subtopologies: list[TopologyDescriptionSubtopology] = [] if subtopologies is UNSET else subtopologies
        self.global_stores: list[TopologyDescriptionGlobalStore] = [] if global_stores is UNSET else global_stores


class TopologyDescriptionSubtopology(Struct):
    __slots__ = ("subtopology_id", "nodes")
    SCHEMA = """
        subtopology_id string 1+
        nodes []TopologyDescriptionNode 1+
    """

    def __init__(self, *, subtopology_id: str = "", nodes: list[TopologyDescriptionNode] = UNSET) -> None:
        self.subtopology_id = subtopology_id
        self.nodes: list[TopologyDescriptionNode] = [] if nodes is UNSET else nodes


class TopologyDescriptionNode(Struct):
    __slots__ = ("name", "node_type", "source_topics", "sink_topic", "stores", "successors")
    SCHEMA = """
        name string 1+
        node_type int8 1+
        source_topics []string 1+
        sink_topic string 1+ null:1+ default:null
        stores []string 1+
        successors []string 1+
    """

    def __init__(self, *,
        name: str = "", node_type: int = 0, source_topics: list[str] = UNSET, sink_topic: str | None = None,
        stores: list[str] = UNSET, successors: list[str] = UNSET,
    ) -> None:
        self.name = name
        self.node_type = node_type
        self.source_topics: list[str] = [] if source_topics is UNSET else source_topics
        self.sink_topic = sink_topic
        self.stores: list[str] = [] if stores is UNSET else stores
        self.successors: list[str] = [] if successors is UNSET else successors


class TopologyDescriptionGlobalStore(Struct):
    __slots__ = ("source", "processor")
    SCHEMA = """
        source TopologyDescriptionNode 1+
        processor TopologyDescriptionNode 1+
    """

    def __init__(self, *,
        source: TopologyDescriptionNode = UNSET, processor: TopologyDescriptionNode = UNSET,
    ) -> None:
        self.source: TopologyDescriptionNode = TopologyDescriptionNode() if source is UNSET else source
        self.processor: TopologyDescriptionNode = TopologyDescriptionNode() if processor is UNSET else processor
