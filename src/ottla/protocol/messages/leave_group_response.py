"""LeaveGroupResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class LeaveGroupResponse(Message):
    API_KEY = 13
    MIN_VERSION = 0
    MAX_VERSION = 5
    MAX_STABLE_VERSION = 5
    FLEXIBLE_FROM = 4
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "error_code", "members")
    SCHEMA = """
        throttle_time_ms int32 1+ ignorable
        error_code int16 0+
        members []MemberResponse 3+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, members: list[MemberResponse] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members: list[MemberResponse] = [] if members is UNSET else members


class MemberResponse(Struct):
    __slots__ = ("member_id", "group_instance_id", "error_code")
    SCHEMA = """
        member_id string 3+
        group_instance_id string 3+ null:3+
        error_code int16 3+
    """

    def __init__(self, *,
        member_id: str = "", group_instance_id: str | None = "", error_code: int = 0,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.error_code = error_code
