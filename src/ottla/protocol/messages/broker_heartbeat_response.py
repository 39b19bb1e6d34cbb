"""BrokerHeartbeatResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class BrokerHeartbeatResponse(Message):
    API_KEY = 63
    MIN_VERSION = 0
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "error_code", "is_caught_up", "is_fenced", "should_shut_down")
    SCHEMA = """
        throttle_time_ms int32 0+
        error_code int16 0+
        is_caught_up bool 0+
        is_fenced bool 0+ default:true
        should_shut_down bool 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, is_caught_up: bool = False, is_fenced: bool = True,
        should_shut_down: bool = False,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.is_caught_up = is_caught_up
        self.is_fenced = is_fenced
        self.should_shut_down = should_shut_down
