"""SyncGroupResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class SyncGroupResponse(Message):
    API_KEY = 14
    MIN_VERSION = 0
    MAX_VERSION = 5
    MAX_STABLE_VERSION = 5
    FLEXIBLE_FROM = 4
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "error_code", "protocol_type", "protocol_name", "assignment")
    SCHEMA = """
        throttle_time_ms int32 1+ ignorable
        error_code int16 0+
        protocol_type string 5+ null:5+ default:null ignorable
        protocol_name string 5+ null:5+ default:null ignorable
        assignment bytes 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, protocol_type: str | None = None,
        protocol_name: str | None = None, assignment: bytes = b"",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignment = assignment
