"""FindCoordinatorResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class FindCoordinatorResponse(Message):
    API_KEY = 10
    MIN_VERSION = 0
    MAX_VERSION = 6
    MAX_STABLE_VERSION = 6
    FLEXIBLE_FROM = 3
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "node_id", "host", "port", "coordinators")
    SCHEMA = """
        throttle_time_ms int32 1+ ignorable
        error_code int16 0-3
        error_message string 1-3 null:1-3 ignorable
        node_id int32 0-3
        host string 0-3
        port int32 0-3
        coordinators []Coordinator 4+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = "", node_id: int = 0,
        host: str = "", port: int = 0, coordinators: list[Coordinator] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port
        self.coordinators: list[Coordinator] = [] if coordinators is UNSET else coordinators


class Coordinator(Struct):
    __slots__ = ("key", "node_id", "host", "port", "error_code", "error_message")
    SCHEMA = """
        key string 4+
        node_id int32 4+
        host string 4+
        port int32 4+
        error_code int16 4+
        error_message string 4+ null:4+ ignorable
    """

    def __init__(self, *,
        key: str = "", node_id: int = 0, host: str = "", port: int = 0, error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.key = key
        self.node_id = node_id
        self.host = host
        self.port = port
        self.error_code = error_code
        self.error_message = error_message
