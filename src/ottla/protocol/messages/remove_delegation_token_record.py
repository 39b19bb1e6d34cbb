"""RemoveDelegationTokenRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class RemoveDelegationTokenRecord(Message):
    API_KEY = 26
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("token_id",)
    SCHEMA = """
        token_id string 0+
    """

    def __init__(self, *, token_id: str = "") -> None:
        self.token_id = token_id
