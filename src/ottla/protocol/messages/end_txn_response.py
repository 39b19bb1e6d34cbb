"""EndTxnResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message


class EndTxnResponse(Message):
    API_KEY = 26
    MIN_VERSION = 0
    MAX_VERSION = 5
    MAX_STABLE_VERSION = 5
    FLEXIBLE_FROM = 3
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "error_code", "producer_id", "producer_epoch")
    SCHEMA = """
        throttle_time_ms int32 0+
        error_code int16 0+
        producer_id int64 5+ default:-1 ignorable
        producer_epoch int16 5+ default:-1 ignorable
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, producer_id: int = -1, producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
