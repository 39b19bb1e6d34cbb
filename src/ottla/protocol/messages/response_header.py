"""ResponseHeader, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class ResponseHeader(Message):
    API_KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 1
    MAX_STABLE_VERSION = 1
    FLEXIBLE_FROM = 1
    READERS = {}
    WRITERS = {}
    __slots__ = ("correlation_id",)
    SCHEMA = """
        correlation_id int32 0+
    """

    def __init__(self, *, correlation_id: int = 0) -> None:
        self.correlation_id = correlation_id
