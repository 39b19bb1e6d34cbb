"""LeaveGroupRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class LeaveGroupRequest(Message):
    API_KEY = 13
    MIN_VERSION = 0
    MAX_VERSION = 5
    MAX_STABLE_VERSION = 5
    FLEXIBLE_FROM = 4
    READERS = {}
    WRITERS = {}
    __slots__ = ("group_id", "member_id", "members")
    SCHEMA = """
        group_id string 0+
        member_id string 0-2
        members []MemberIdentity 3+
    """

    def __init__(self, *,
        group_id: str = "", member_id: str = "", members: list[MemberIdentity] = UNSET,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.members: list[MemberIdentity] = [] if members is UNSET else members


class MemberIdentity(Struct):
    __slots__ = ("member_id", "group_instance_id", "reason")
    SCHEMA = """
        member_id string 3+
        group_instance_id string 3+ null:3+ default:null
        reason string 5+ null:5+ default:null ignorable
    """

    def __init__(self, *,
        member_id: str = "", group_instance_id: str | None = None, reason: str | None = None,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason
