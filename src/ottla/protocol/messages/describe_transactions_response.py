"""DescribeTransactionsResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class DescribeTransactionsResponse(Message):
    API_KEY = 65
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "transaction_states")
    SCHEMA = """
        throttle_time_ms int32 0+
        transaction_states []TransactionState 0+
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, transaction_states: list[TransactionState] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.transaction_states: list[TransactionState] = [] if transaction_states is UNSET else transaction_states


class TransactionState(Struct):
    __slots__ = (
        "error_code", "transactional_id", "transaction_state", "transaction_timeout_ms",
        "transaction_start_time_ms", "producer_id", "producer_epoch", "topics",
    )
    SCHEMA = """
        error_code int16 0+
        transactional_id string 0+
        transaction_state string 0+
        transaction_timeout_ms int32 0+
        transaction_start_time_ms int64 0+
        producer_id int64 0+
        producer_epoch int16 0+
        topics []TopicData 0+
    """

    def __init__(self, *,
        error_code: int = 0, transactional_id: str = "", transaction_state: str = "",
        transaction_timeout_ms: int = 0, transaction_start_time_ms: int = 0, producer_id: int = 0,
        producer_epoch: int = 0, topics: list[TopicData] = UNSET,
    ) -> None:
        self.error_code = error_code
        self.transactional_id = transactional_id
        self.transaction_state = transaction_state
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_start_time_ms = transaction_start_time_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.topics: list[TopicData] = [] if topics is UNSET else topics


class TopicData(Struct):
    __slots__ = ("topic", "partitions")
    SCHEMA = """
        topic string 0+
        partitions []int32 0+
    """

    def __init__(self, *, topic: str = "", partitions: list[int] = UNSET) -> None:
        self.topic = topic
        self.partitions: list[int] = [] if partitions is UNSET else partitions
