"""ListTransactionsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class ListTransactionsResponse(Message):
    API_KEY = 66
    MIN_VERSION = 0
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "error_code", "unknown_state_filters", "transaction_states")
    SCHEMA = """
        throttle_time_ms int32 0+
        error_code int16 0+
        unknown_state_filters []string 0+
        transaction_states []TransactionState 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0, unknown_state_filters: list[str] = UNSET,
        transaction_states: list[TransactionState] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters: list[str] = [] if unknown_state_filters is UNSET else unknown_state_filters
        self.transaction_states: list[TransactionState] = [] if transaction_states is UNSET else transaction_states


class TransactionState(Struct):
    __slots__ = ("transactional_id", "producer_id", "transaction_state")
    SCHEMA = """
        transactional_id string 0+
        producer_id int64 0+
        transaction_state string 0+
    """

    def __init__(self, *,
        transactional_id: str = "", producer_id: int = 0, transaction_state: str = "",
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.transaction_state = transaction_state
