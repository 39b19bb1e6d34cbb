"""BeginTransactionRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class BeginTransactionRecord(Message):
    API_KEY = 23
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("name",)
    SCHEMA = """
        name string 0+ null:0+ tag:0:0+ default:null
    """

    def __init__(self, *, name: str | None = None) -> None:
        self.name = name
