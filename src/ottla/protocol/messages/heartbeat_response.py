"""HeartbeatResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class HeartbeatResponse(Message):
    API_KEY = 12
    MIN_VERSION = 0
    MAX_VERSION = 4
    MAX_STABLE_VERSION = 4
    FLEXIBLE_FROM = 4
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "error_code")
    SCHEMA = """
        throttle_time_ms int32 1+ ignorable
        error_code int16 0+
    """

    def __init__(self, *, throttle_time_ms: int = 0, error_code: int = 0) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
