"""IncrementalAlterConfigsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class IncrementalAlterConfigsResponse(Message):
    API_KEY = 44
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 1
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "responses")
    SCHEMA = """
        throttle_time_ms int32 0+
        responses []AlterConfigsResourceResponse 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, responses: list[AlterConfigsResourceResponse] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses: list[AlterConfigsResourceResponse] = [] if responses is UNSET else responses


class AlterConfigsResourceResponse(Struct):
    __slots__ = ("error_code", "error_message", "resource_type", "resource_name")
    SCHEMA = """
        error_code int16 0+
        error_message string 0+ null:0+
        resource_type int8 0+
        resource_name string 0+
    """

    def __init__(self, *,
        error_code: int = 0, error_message: str | None = "", resource_type: int = 0, resource_name: str = "",
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
