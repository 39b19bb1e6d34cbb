"""AddPartitionsToTxnResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class AddPartitionsToTxnResponse(Message):
    API_KEY = 24
    MIN_VERSION = 0
    MAX_VERSION = 5
    MAX_STABLE_VERSION = 5
    FLEXIBLE_FROM = 3
    READERS = {}
    WRITERS = {}
    __slots__ = ("throttle_time_ms", "error_code", "results_by_transaction", "results_by_topic_v3_and_below")
    SCHEMA = """
        throttle_time_ms int32 0+
        error_code int16 4+ ignorable
        results_by_transaction []AddPartitionsToTxnResult 4+
        results_by_topic_v3_and_below []AddPartitionsToTxnTopicResult 0-3
    """

    def __init__(self, *,
        throttle_time_ms: int = 0, error_code: int = 0,
        results_by_transaction: list[AddPartitionsToTxnResult] = UNSET,
        results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = UNSET,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction: list[AddPartitionsToTxnResult] = [] if results_by_transaction is UNSET else results_by_transaction
        self.results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = [] if results_by_topic_v3_and_below is UNSET else results_by_topic_v3_and_below


class AddPartitionsToTxnResult(Struct):
    __slots__ = ("transactional_id", "topic_results")
    SCHEMA = """
        transactional_id string 4+
        topic_results []AddPartitionsToTxnTopicResult 4+
    """

    def __init__(self, *,
        transactional_id: str = "", topic_results: list[AddPartitionsToTxnTopicResult] = UNSET,
    ) -> None:
        self.transactional_id = transactional_id
        self.topic_results: list[AddPartitionsToTxnTopicResult] = [] if topic_results is UNSET else topic_results


class AddPartitionsToTxnTopicResult(Struct):
    __slots__ = ("name", "results_by_partition")
    SCHEMA = """
        name string 0+
        results_by_partition []AddPartitionsToTxnPartitionResult 0+
    """

    def __init__(self, *,
        name: str = "", results_by_partition: list[AddPartitionsToTxnPartitionResult] = UNSET,
    ) -> None:
        self.name = name
        self.results_by_partition: list[AddPartitionsToTxnPartitionResult] = [] if results_by_partition is UNSET else results_by_partition


class AddPartitionsToTxnPartitionResult(Struct):
    __slots__ = ("partition_index", "partition_error_code")
    SCHEMA = """
        partition_index int32 0+
        partition_error_code int16 0+
    """

    def __init__(self, *, partition_index: int = 0, partition_error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.partition_error_code = partition_error_code
