"""ExpireDelegationTokenRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class ExpireDelegationTokenRequest(Message):
    API_KEY = 40
    MIN_VERSION = 1
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("hmac", "expiry_time_period_ms")
    SCHEMA = """
        hmac bytes 0+
        expiry_time_period_ms int64 0+
    """

    def __init__(self, *, hmac: bytes = b"", expiry_time_period_ms: int = 0) -> None:
        self.hmac = hmac
        self.expiry_time_period_ms = expiry_time_period_ms
