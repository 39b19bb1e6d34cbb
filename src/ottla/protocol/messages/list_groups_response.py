"""ListGroupsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class ListGroupsResponse(Message):
    API_KEY = 16
    MIN_VERSION = 0
    MAX_VERSION = 5
    MAX_STABLE_VERSION = 5
    FLEXIBLE_FROM = 3
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "error_code", "groups")
    SCHEMA = """
        throttle_time_ms int32 1+ ignorable
        error_code int16 0+
        groups []ListedGroup 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, groups: list[ListedGroup] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups: list[ListedGroup] = [] if groups is UNSET else groups


class ListedGroup(Struct):
    __slots__ = ("group_id", "protocol_type", "group_state", "group_type")
    SCHEMA = """
        group_id string 0+
        protocol_type string 0+
        group_state string 4+ ignorable
        group_type string 5+ ignorable
    """

    def __init__(self, *,
        group_id: str = "", protocol_type: str = "", group_state: str = "", group_type: str = "",
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.group_state = group_state
        self.group_type = group_type
