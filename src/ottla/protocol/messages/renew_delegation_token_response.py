"""RenewDelegationTokenResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class RenewDelegationTokenResponse(Message):
    API_KEY = 39
    MIN_VERSION = 1
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("error_code", "expiry_timestamp_ms", "throttle_time_ms")
    SCHEMA = """
        error_code int16 0+
        expiry_timestamp_ms int64 0+
        throttle_time_ms int32 0+
    """

    def __init__(self, *,
        error_code: int = 0, expiry_timestamp_ms: int = 0, throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.throttle_time_ms = throttle_time_ms
