"""EndTxnRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class EndTxnRequest(Message):
    API_KEY = 26
    MIN_VERSION = 0
    MAX_VERSION = 5
    MAX_STABLE_VERSION = 5
    FLEXIBLE_FROM = 3
    READERS = {}
    WRITERS = {}
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "committed")
    SCHEMA = """
        transactional_id string 0+
        producer_id int64 0+
        producer_epoch int16 0+
        committed bool 0+
    """

    def __init__(self, *,
        transactional_id: str = "", producer_id: int = 0, producer_epoch: int = 0, committed: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.committed = committed
