"""InitProducerIdResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class InitProducerIdResponse(Message):
    API_KEY = 22
    MIN_VERSION = 0
    MAX_VERSION = 6
    MAX_STABLE_VERSION = 6
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "throttle_time_ms", "error_code", "producer_id", "producer_epoch", "ongoing_txn_producer_id",
        "ongoing_txn_producer_epoch",
    )
    SCHEMA = """
        throttle_time_ms int32 0+ ignorable
        error_code int16 0+
        producer_id int64 0+ default:-1
        producer_epoch int16 0+
        ongoing_txn_producer_id int64 6+ default:-1
        ongoing_txn_producer_epoch int16 6+ default:-1
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, producer_id: int = -1, producer_epoch: int = 0,
        ongoing_txn_producer_id: int = -1, ongoing_txn_producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.ongoing_txn_producer_id = ongoing_txn_producer_id
        self.ongoing_txn_producer_epoch = ongoing_txn_producer_epoch
