"""HeartbeatRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class HeartbeatRequest(Message):
    API_KEY = 12
    MIN_VERSION = 0
    MAX_VERSION = 4
    MAX_STABLE_VERSION = 4
    FLEXIBLE_FROM = 4
    READERS = {}
    WRITERS = {}
    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id")
    SCHEMA = """
        group_id string 0+
        generation_id int32 0+
        member_id string 0+
        group_instance_id string 3+ null:3+ default:null
    """

    def __init__(self, *,
        group_id: str = "", generation_id: int = 0, member_id: str = "", group_instance_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
