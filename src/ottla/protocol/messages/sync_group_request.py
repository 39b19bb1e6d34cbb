"""SyncGroupRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class SyncGroupRequest(Message):
    API_KEY = 14
    MIN_VERSION = 0
    MAX_VERSION = 5
    MAX_STABLE_VERSION = 5
    FLEXIBLE_FROM = 4
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "group_id", "generation_id", "member_id", "group_instance_id", "protocol_type", "protocol_name",
        "assignments",
    )
    SCHEMA = """
        group_id string 0+
        generation_id int32 0+
        member_id string 0+
        group_instance_id string 3+ null:3+ default:null
        protocol_type string 5+ null:5+ default:null ignorable
        protocol_name string 5+ null:5+ default:null ignorable
        assignments []SyncGroupRequestAssignment 0+
    """

    def __init__(self, *,
        group_id: str = "", generation_id: int = 0, member_id: str = "", group_instance_id: str | None = None,
        protocol_type: str | None = None, protocol_name: str | None = None,
        assignments: list[SyncGroupRequestAssignment] = UNSET,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments: list[SyncGroupRequestAssignment] = [] if assignments is UNSET else assignments


class SyncGroupRequestAssignment(Struct):
    __slots__ = ("member_id", "assignment")
    SCHEMA = """
        member_id string 0+
        assignment bytes 0+
    """

    def __init__(self, *, member_id: str = "", assignment: bytes = b"") -> None:
        self.member_id = member_id
        self.assignment = assignment
