"""DeleteShareGroupOffsetsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class DeleteShareGroupOffsetsResponse(Message):
    API_KEY = 92
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "responses")
    SCHEMA = """
        throttle_time_ms int32 0+
        error_code int16 0+
        error_message string 0+ null:0+ default:null
        responses []DeleteShareGroupOffsetsResponseTopic 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = None,
        responses: list[DeleteShareGroupOffsetsResponseTopic] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses: list[DeleteShareGroupOffsetsResponseTopic] = [] if responses is UNSET else responses


class DeleteShareGroupOffsetsResponseTopic(Struct):
    __slots__ = ("topic_name", "topic_id", "error_code", "error_message")
    SCHEMA = """
        topic_name string 0+
        topic_id uuid 0+
        error_code int16 0+
        error_message string 0+ null:0+ default:null
    """

    def __init__(self, *,
        topic_name: str = "", topic_id: bytes = ZERO_UUID, error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
