"""AddOffsetsToTxnRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class AddOffsetsToTxnRequest(Message):
    API_KEY = 25
    MIN_VERSION = 0
    MAX_VERSION = 4
    MAX_STABLE_VERSION = 4
    FLEXIBLE_FROM = 3
    READERS = {}
    WRITERS = {}
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "group_id")
    SCHEMA = """
        transactional_id string 0+
        producer_id int64 0+
        producer_epoch int16 0+
        group_id string 0+
    """

    def __init__(self, *,
        transactional_id: str = "", producer_id: int = 0, producer_epoch: int = 0, group_id: str = "",
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.group_id = group_id
