"""RequestHeader, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class RequestHeader(Message):
    API_KEY = -1
    MIN_VERSION = 1
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("request_api_key", "request_api_version", "correlation_id", "client_id")
    SCHEMA = """
        request_api_key int16 0+
        request_api_version int16 0+
        correlation_id int32 0+
        client_id string 1+ null:1+ inflexible
    """

    def __init__(self, *,
        request_api_key: int = 0, request_api_version: int = 0, correlation_id: int = 0,
        client_id: str | None = "",
    ) -> None:
        self.request_api_key = request_api_key
        self.request_api_version = request_api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
