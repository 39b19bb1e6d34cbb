"""ListConfigResourcesResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class ListConfigResourcesResponse(Message):
    API_KEY = 74
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "error_code", "config_resources")
    SCHEMA = """
        throttle_time_ms int32 0+
        error_code int16 0+
        config_resources []ConfigResource 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, config_resources: list[ConfigResource] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.config_resources: list[ConfigResource] = [] if config_resources is UNSET else config_resources


class ConfigResource(Struct):
    __slots__ = ("resource_name", "resource_type")
    SCHEMA = """
        resource_name string 0+
        resource_type int8 1+ default:16 ignorable
    """

    def __init__(self, *, resource_name: str = "", resource_type: int = 16) -> None:
        self.resource_name = resource_name
        self.resource_type = resource_type
