"""UnregisterBrokerRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class UnregisterBrokerRequest(Message):
    API_KEY = 64
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("broker_id",)
    SCHEMA = """
        broker_id int32 0+
    """

    def __init__(self, *, broker_id: int = 0) -> None:
        self.broker_id = broker_id
