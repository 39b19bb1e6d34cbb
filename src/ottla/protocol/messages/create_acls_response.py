"""CreateAclsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class CreateAclsResponse(Message):
    API_KEY = 30
    MIN_VERSION = 1
    MAX_VERSION = 3
    MAX_STABLE_VERSION = 3
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "results")
    SCHEMA = """
        throttle_time_ms int32 0+
        results []AclCreationResult 0+
    """

    def __init__(self, *, throttle_time_ms: int = 0, results: list[AclCreationResult] = UNSET) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results: list[AclCreationResult] = [] if results is UNSET else results


class AclCreationResult(Struct):
    __slots__ = ("error_code", "error_message")
    SCHEMA = """
        error_code int16 0+
        error_message string 0+ null:0+
    """

    def __init__(self, *, error_code: int = 0, error_message: str | None = "") -> None:
        self.error_code = error_code
        self.error_message = error_message
