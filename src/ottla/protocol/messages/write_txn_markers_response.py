"""WriteTxnMarkersResponse, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class WriteTxnMarkersResponse(Message):
    API_KEY = 27
    MIN_VERSION = 1
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 1
    READERS = {}
    WRITERS = {}
    __slots__ = ("markers",)
    SCHEMA = """
        markers []WritableTxnMarkerResult 0+
    """

    def __init__(self, *, markers: list[WritableTxnMarkerResult] = UNSET) -> None:
        self.markers: list[WritableTxnMarkerResult] = [] if markers is UNSET else markers


class WritableTxnMarkerResult(Struct):
    __slots__ = ("producer_id", "topics")
    SCHEMA = """
        producer_id int64 0+
        topics []WritableTxnMarkerTopicResult 0+
    """

    def __init__(self, *, producer_id: int = 0, topics: list[WritableTxnMarkerTopicResult] = UNSET) -> None:
        self.producer_id = producer_id
        self.topics: list[WritableTxnMarkerTopicResult] = [] if topics is UNSET else topics


class WritableTxnMarkerTopicResult(Struct):
    __slots__ = ("name", "partitions")
    SCHEMA = """
        name string 0+
        partitions []WritableTxnMarkerPartitionResult 0+
    """

    def __init__(self, *, name: str = "", partitions: list[WritableTxnMarkerPartitionResult] = UNSET) -> None:
        self.name = name
        self.partitions: list[WritableTxnMarkerPartitionResult] = [] if partitions is UNSET else partitions


class WritableTxnMarkerPartitionResult(Struct):
    __slots__ = ("partition_index", "error_code")
    SCHEMA = """
        partition_index int32 0+
        error_code int16 0+
    """

    def __init__(self, *, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
