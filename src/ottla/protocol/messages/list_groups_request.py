"""ListGroupsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, UNSET


class ListGroupsRequest(Message):
    API_KEY = 16
    MIN_VERSION = 0
    MAX_VERSION = 5
    MAX_STABLE_VERSION = 5
    FLEXIBLE_FROM = 3
    READERS = {}
    WRITERS = {}
    __slots__ = ("states_filter", "types_filter")
    SCHEMA = """
        states_filter []string 4+
        types_filter []string 5+
    """

    def __init__(self, *, states_filter: list[str] = UNSET, types_filter: list[str] = UNSET) -> None:
        self.states_filter: list[str] = [] if states_filter is UNSET else states_filter
        self.types_filter: list[str] = [] if types_filter is UNSET else types_filter
