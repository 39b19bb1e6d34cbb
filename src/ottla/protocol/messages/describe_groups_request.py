"""DescribeGroupsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, UNSET


class DescribeGroupsRequest(Message):
    API_KEY = 15
    MIN_VERSION = 0
    MAX_VERSION = 6
    MAX_STABLE_VERSION = 6
    FLEXIBLE_FROM = 5
    READERS = {}
    WRITERS = {}
    __slots__ = ("groups", "include_authorized_operations", "include_rebalances")
    SCHEMA = """
        groups []string 0+
        include_authorized_operations bool 3+
        include_rebalances bool 5+ tag:10000:5+ ignorable
    """

    def __init__(self, *,
        groups: list[str] = UNSET, include_authorized_operations: bool = False,
        include_rebalances: bool = False,
    ) -> None:
        self.groups: list[str] = [] if groups is UNSET else groups
        self.include_authorized_operations = include_authorized_operations
        self.include_rebalances = include_rebalances
