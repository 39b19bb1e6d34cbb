"""DeleteTopicsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class DeleteTopicsResponse(Message):
    API_KEY = 20
    MIN_VERSION = 1
    MAX_VERSION = 6
    MAX_STABLE_VERSION = 6
    FLEXIBLE_FROM = 4
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "responses")
    SCHEMA = """
        throttle_time_ms int32 1+ ignorable
        responses []DeletableTopicResult 0+
    """

    def __init__(self, *, throttle_time_ms: int = 0, responses: list[DeletableTopicResult] = UNSET) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses: list[DeletableTopicResult] = [] if responses is UNSET else responses


class DeletableTopicResult(Struct):
    __slots__ = ("name", "topic_id", "error_code", "error_message")
    SCHEMA = """
        name string 0+ null:6+
        topic_id uuid 6+ ignorable
        error_code int16 0+
        error_message string 5+ null:5+ default:null ignorable
    """

    def __init__(self, *,
        name: str | None = "", topic_id: bytes = ZERO_UUID, error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
