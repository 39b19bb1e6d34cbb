"""DeleteGroupsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class DeleteGroupsResponse(Message):
    API_KEY = 42
    MIN_VERSION = 0
    MAX_VERSION = 3
    MAX_STABLE_VERSION = 3
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "results")
    SCHEMA = """
        throttle_time_ms int32 0+
        results []DeletableGroupResult 0+
    """

    def __init__(self, *, throttle_time_ms: int = 0, results: list[DeletableGroupResult] = UNSET) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results: list[DeletableGroupResult] = [] if results is UNSET else results


class DeletableGroupResult(Struct):
    __slots__ = ("group_id", "error_code", "error_message")
    SCHEMA = """
        group_id string 0+
        error_code int16 0+
        error_message string 3+ null:3+ default:null ignorable
    """

    def __init__(self, *, group_id: str = "", error_code: int = 0, error_message: str | None = None) -> None:
        self.group_id = group_id
        self.error_code = error_code
        self.error_message = error_message
