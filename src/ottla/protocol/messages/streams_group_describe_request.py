"""StreamsGroupDescribeRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, UNSET


class StreamsGroupDescribeRequest(Message):
    API_KEY = 89
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("group_ids", "include_authorized_operations", "include_topology_description")
    SCHEMA = """
        group_ids []string 0+
        include_authorized_operations bool 0+
        include_topology_description bool 1+
    """

    def __init__(self, *,
        group_ids: list[str] = UNSET, include_authorized_operations: bool = False,
        include_topology_description: bool = False,
    ) -> None:
        self.group_ids: list[str] = [] if group_ids is UNSET else group_ids
        self.include_authorized_operations = include_authorized_operations
        self.include_topology_description = include_topology_description
