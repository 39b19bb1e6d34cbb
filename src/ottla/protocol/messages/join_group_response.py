"""JoinGroupResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class JoinGroupResponse(Message):
    API_KEY = 11
    MIN_VERSION = 0
    MAX_VERSION = 9
    MAX_STABLE_VERSION = 9
    FLEXIBLE_FROM = 6
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "throttle_time_ms", "error_code", "generation_id", "protocol_type", "protocol_name", "leader",
        "skip_assignment", "member_id", "members",
    )
    SCHEMA = """
        throttle_time_ms int32 2+ ignorable
        error_code int16 0+
        generation_id int32 0+ default:-1
        protocol_type string 7+ null:7+ default:null ignorable
        protocol_name string 0+ null:7+
        leader string 0+
        skip_assignment bool 9+
        member_id string 0+
        members []JoinGroupResponseMember 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, generation_id: int = -1,
        protocol_type: str | None = None, protocol_name: str | None = "", leader: str = "",
        skip_assignment: bool = False, member_id: str = "", members: list[JoinGroupResponseMember] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.skip_assignment = skip_assignment
        self.member_id = member_id
        self.members: list[JoinGroupResponseMember] = [] if members is UNSET else members


class JoinGroupResponseMember(Struct):
    __slots__ = ("member_id", "group_instance_id", "metadata")
    SCHEMA = """
        member_id string 0+
        group_instance_id string 5+ null:5+ default:null ignorable
        metadata bytes 0+
    """

    def __init__(self, *,
        member_id: str = "", group_instance_id: str | None = None, metadata: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.metadata = metadata
