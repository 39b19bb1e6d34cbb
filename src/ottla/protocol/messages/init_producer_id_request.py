"""InitProducerIdRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class InitProducerIdRequest(Message):
    API_KEY = 22
    MIN_VERSION = 0
    MAX_VERSION = 6
    MAX_STABLE_VERSION = 5
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "transactional_id", "transaction_timeout_ms", "producer_id", "producer_epoch", "enable2_pc",
        "keep_prepared_txn",
    )
    SCHEMA = """
        transactional_id string 0+ null:0+
        transaction_timeout_ms int32 0+
        producer_id int64 3+ default:-1
        producer_epoch int16 3+ default:-1
        enable2_pc bool 6+
        keep_prepared_txn bool 6+
    """

    def __init__(self, *,
        transactional_id: str | None = "", transaction_timeout_ms: int = 0, producer_id: int = -1,
        producer_epoch: int = -1, enable2_pc: bool = False, keep_prepared_txn: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.enable2_pc = enable2_pc
        self.keep_prepared_txn = keep_prepared_txn
