"""CreatePartitionsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class CreatePartitionsResponse(Message):
    API_KEY = 37
    MIN_VERSION = 0
    MAX_VERSION = 3
    MAX_STABLE_VERSION = 3
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "results")
    SCHEMA = """
        throttle_time_ms int32 0+
        results []CreatePartitionsTopicResult 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, results: list[CreatePartitionsTopicResult] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results: list[CreatePartitionsTopicResult] = [] if results is UNSET else results


class CreatePartitionsTopicResult(Struct):
    __slots__ = ("name", "error_code", "error_message")
    SCHEMA = """
        name string 0+
        error_code int16 0+
        error_message string 0+ null:0+ default:null
    """

    def __init__(self, *, name: str = "", error_code: int = 0, error_message: str | None = None) -> None:
        self.name = name
        self.error_code = error_code
        self.error_message = error_message
