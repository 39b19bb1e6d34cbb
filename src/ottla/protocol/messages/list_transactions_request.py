"""ListTransactionsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, UNSET


class ListTransactionsRequest(Message):
    API_KEY = 66
    MIN_VERSION = 0
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("state_filters", "producer_id_filters", "duration_filter", "transactional_id_pattern")
    SCHEMA = """
        state_filters []string 0+
        producer_id_filters []int64 0+
        duration_filter int64 1+ default:-1
        transactional_id_pattern string 2+ null:2+ default:null
    """

    def __init__(self, *,
        state_filters: list[str] = UNSET, producer_id_filters: list[int] = UNSET, duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> None:
        self.state_filters: list[str] = [] if state_filters is UNSET else state_filters
        self.producer_id_filters: list[int] = [] if producer_id_filters is UNSET else producer_id_filters
        self.duration_filter = duration_filter
        self.transactional_id_pattern = transactional_id_pattern
