"""ConsumerGroupDescribeResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class ConsumerGroupDescribeResponse(Message):
    API_KEY = 69
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
        "assignor_name", "members", "authorized_operations", "rebalances",
    )
    SCHEMA = """
        error_code int16 0+
        error_message string 0+ null:0+ default:null
        group_id string 0+
        group_state string 0+
        group_epoch int32 0+
        assignment_epoch int32 0+
        assignor_name string 0+
        members []Member 0+
        authorized_operations int32 0+ default:-2147483648
        rebalances []Rebalance 0+ tag:10000:0+
    """

    def __init__(self, *,
        error_code: int = 0, error_message: str | None = None, group_id: str = "", group_state: str = "",
        group_epoch: int = 0, assignment_epoch: int = 0, assignor_name: str = "",
        members: list[Member] = UNSET, authorized_operations: int = -2147483648,
        rebalances: list[Rebalance] = UNSET,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.assignor_name = assignor_name
        self.members: list[Member] = [] if members is UNSET else members
        self.authorized_operations = authorized_operations
        self.rebalances: list[Rebalance] = [] if rebalances is UNSET else rebalances


class Member(Struct):
    __slots__ = (
        "member_id", "instance_id", "rack_id", "member_epoch", "client_id", "client_host",
        "subscribed_topic_names", "subscribed_topic_regex", "assignment", "target_assignment", "member_type",
    )
    SCHEMA = """
        member_id string 0+
        instance_id string 0+ null:0+ default:null
        rack_id string 0+ null:0+ default:null
        member_epoch int32 0+
        client_id string 0+
        client_host string 0+
        subscribed_topic_names []string 0+
        subscribed_topic_regex string 0+ null:0+ default:null
        assignment Assignment 0+
        target_assignment Assignment 0+
        member_type int8 1+ default:-1 ignorable
    """

    def __init__(self, *,
        member_id: str = "", instance_id: str | None = None, rack_id: str | None = None,
        member_epoch: int = 0, client_id: str = "", client_host: str = "",
        subscribed_topic_names: list[str] = UNSET, subscribed_topic_regex: str | None = None,
        assignment: Assignment = UNSET, target_assignment: Assignment = UNSET, member_type: int = -1,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names: list[str] = [] if subscribed_topic_names is UNSET else subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.assignment: Assignment = Assignment() if assignment is UNSET else assignment
        self.target_assignment: Assignment = Assignment() if target_assignment is UNSET else target_assignment
        self.member_type = member_type


class Assignment(Struct):
    __slots__ = ("topic_partitions",)
    SCHEMA = """
        topic_partitions []TopicPartitions 0+
    """

    def __init__(self, *, topic_partitions: list[TopicPartitions] = UNSET) -> None:
        self.topic_partitions: list[TopicPartitions] = [] if topic_partitions is UNSET else topic_partitions


class TopicPartitions(Struct):
    __slots__ = ("topic_id", "topic_name", "partitions")
    SCHEMA = """
        topic_id uuid 0+
        topic_name string 0+
        partitions []int32 0+
    """

    def __init__(self, *,
        topic_id: bytes = ZERO_UUID, topic_name: str = "", partitions: list[int] = UNSET,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions: list[int] = [] if partitions is UNSET else partitions


class Rebalance(Struct):
    __slots__ = ("began_ms", "ended_ms", "generation", "member_count", "triggers", "triggers_left_out")
    SCHEMA = """
        began_ms int64 0+
        ended_ms int64 0+
        generation int32 0+
        member_count int32 0+
        triggers []RebalanceTrigger 0+
        triggers_left_out int32 0+
    """

    def __init__(self, *,
        began_ms: int = 0, ended_ms: int = 0, generation: int = 0, member_count: int = 0,
        triggers: list[RebalanceTrigger] = UNSET, triggers_left_out: int = 0,
    ) -> None:
        self.began_ms = began_ms
        self.ended_ms = ended_ms
        self.generation = generation
        self.member_count = member_count
        self.triggers: list[RebalanceTrigger] = [] if triggers is UNSET else triggers
        self.triggers_left_out = triggers_left_out


class RebalanceTrigger(Struct):
    __slots__ = ("what", "at_ms", "member_id", "client_id", "client_host", "detail")
    SCHEMA = """
        what string 0+
        at_ms int64 0+
        member_id string 0+
        client_id string 0+
        client_host string 0+
        detail string 0+
    """

    def __init__(self, *,
        what: str = "", at_ms: int = 0, member_id: str = "", client_id: str = "", client_host: str = "",
        detail: str = "",
    ) -> None:
        self.what = what
        self.at_ms = at_ms
        self.member_id = member_id
        self.client_id = client_id
        self.client_host = client_host
        self.detail = detail
