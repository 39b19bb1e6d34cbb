"""DescribeGroupsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class DescribeGroupsResponse(Message):
    API_KEY = 15
    MIN_VERSION = 0
    MAX_VERSION = 6
    MAX_STABLE_VERSION = 6
    FLEXIBLE_FROM = 5
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "groups")
    SCHEMA = """
        throttle_time_ms int32 1+ ignorable
        groups []DescribedGroup 0+
    """

    def __init__(self, *, throttle_time_ms: int = 0, groups: list[DescribedGroup] = UNSET) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups: list[DescribedGroup] = [] if groups is UNSET else groups


class DescribedGroup(Struct):
    __slots__ = (
        "error_code", "error_message", "group_id", "group_state", "protocol_type", "protocol_data", "members",
        "authorized_operations", "rebalances",
    )
    SCHEMA = """
        error_code int16 0+
        error_message string 6+ null:6+ default:null
        group_id string 0+
        group_state string 0+
        protocol_type string 0+
        protocol_data string 0+
        members []DescribedGroupMember 0+
        authorized_operations int32 3+ default:-2147483648
        rebalances []Rebalance 5+ tag:10000:5+ ignorable
    """

    def __init__(self, *,
        error_code: int = 0, error_message: str | None = None, group_id: str = "", group_state: str = "",
        protocol_type: str = "", protocol_data: str = "", members: list[DescribedGroupMember] = UNSET,
        authorized_operations: int = -2147483648, rebalances: list[Rebalance] = UNSET,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.protocol_type = protocol_type
        self.protocol_data = protocol_data
        self.members: list[DescribedGroupMember] = [] if members is UNSET else members
        self.authorized_operations = authorized_operations
        self.rebalances: list[Rebalance] = [] if rebalances is UNSET else rebalances


class DescribedGroupMember(Struct):
    __slots__ = (
        "member_id", "group_instance_id", "client_id", "client_host", "member_metadata", "member_assignment",
    )
    SCHEMA = """
        member_id string 0+
        group_instance_id string 4+ null:4+ default:null ignorable
        client_id string 0+
        client_host string 0+
        member_metadata bytes 0+
        member_assignment bytes 0+
    """

    def __init__(self, *,
        member_id: str = "", group_instance_id: str | None = None, client_id: str = "", client_host: str = "",
        member_metadata: bytes = b"", member_assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.member_metadata = member_metadata
        self.member_assignment = member_assignment


class Rebalance(Struct):
    __slots__ = ("began_ms", "ended_ms", "generation", "member_count", "triggers", "triggers_left_out")
    SCHEMA = """
        began_ms int64 5+
        ended_ms int64 5+
        generation int32 5+
        member_count int32 5+
        triggers []RebalanceTrigger 5+
        triggers_left_out int32 5+
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
        what string 5+
        at_ms int64 5+
        member_id string 5+
        client_id string 5+
        client_host string 5+
        detail string 5+
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
