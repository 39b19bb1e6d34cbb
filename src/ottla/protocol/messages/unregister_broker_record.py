"""UnregisterBrokerRecord, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class UnregisterBrokerRecord(Message):
    API_KEY = 1
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("broker_id", "broker_epoch")
    SCHEMA = """
        broker_id int32 0+
        broker_epoch int64 0+
    """

    def __init__(self, *, broker_id: int = 0, broker_epoch: int = 0) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
