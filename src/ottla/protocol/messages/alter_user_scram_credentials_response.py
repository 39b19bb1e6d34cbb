"""AlterUserScramCredentialsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class AlterUserScramCredentialsResponse(Message):
    API_KEY = 51
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "results")
    SCHEMA = """
        throttle_time_ms int32 0+
        results []AlterUserScramCredentialsResult 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, results: list[AlterUserScramCredentialsResult] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results: list[AlterUserScramCredentialsResult] = [] if results is UNSET else results


class AlterUserScramCredentialsResult(Struct):
    __slots__ = ("user", "error_code", "error_message")
    SCHEMA = """
        user string 0+
        error_code int16 0+
        error_message string 0+ null:0+
    """

    def __init__(self, *, user: str = "", error_code: int = 0, error_message: str | None = "") -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message
