"""TransactionLogKey, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class TransactionLogKey(Message):
    API_KEY = 0
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 32767
    READERS = {}
    WRITERS = {}
    __slots__ = ("transactional_id",)
    SCHEMA = """
        transactional_id string 0
    """

    def __init__(self, *, transactional_id: str = "") -> None:
        self.transactional_id = transactional_id
