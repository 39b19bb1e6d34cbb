"""AllocateProducerIdsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class AllocateProducerIdsRequest(Message):
    API_KEY = 67
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("broker_id", "broker_epoch")
    SCHEMA = """
        broker_id int32 0+
        broker_epoch int64 0+ default:-1
    """

    def __init__(self, *, broker_id: int = 0, broker_epoch: int = -1) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
