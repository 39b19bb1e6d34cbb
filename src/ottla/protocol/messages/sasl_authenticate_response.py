"""SaslAuthenticateResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class SaslAuthenticateResponse(Message):
    API_KEY = 36
    MIN_VERSION = 0
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("error_code", "error_message", "auth_bytes", "session_lifetime_ms")
    SCHEMA = """
        error_code int16 0+
        error_message string 0+ null:0+
        auth_bytes bytes 0+
        session_lifetime_ms int64 1+ ignorable
    """

    def __init__(self, *,
        error_code: int = 0, error_message: str | None = "", auth_bytes: bytes = b"",
        session_lifetime_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms
