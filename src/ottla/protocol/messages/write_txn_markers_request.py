"""WriteTxnMarkersRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class WriteTxnMarkersRequest(Message):
    API_KEY = 27
    MIN_VERSION = 1
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 1
    READERS = {}
    WRITERS = {}
    __slots__ = ("markers",)
    SCHEMA = """
        markers []WritableTxnMarker 0+
    """

    def __init__(self, *, markers: list[WritableTxnMarker] = UNSET) -> None:
        self.markers: list[WritableTxnMarker] = [] if markers is UNSET else markers


class WritableTxnMarker(Struct):
    __slots__ = (
        "producer_id", "producer_epoch", "transaction_result", "topics", "coordinator_epoch",
        "transaction_version",
    )
    SCHEMA = """
        producer_id int64 0+
        producer_epoch int16 0+
        transaction_result bool 0+
        topics []WritableTxnMarkerTopic 0+
        coordinator_epoch int32 0+
        transaction_version int8 2+ ignorable
    """

    def __init__(self, *,
        producer_id: int = 0, producer_epoch: int = 0, transaction_result: bool = False,
        topics: list[WritableTxnMarkerTopic] = UNSET, coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.transaction_result = transaction_result
        self.topics: list[WritableTxnMarkerTopic] = [] if topics is UNSET else topics
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version


class WritableTxnMarkerTopic(Struct):
    __slots__ = ("name", "partition_indexes")
    SCHEMA = """
        name string 0+
        partition_indexes []int32 0+
    """

    def __init__(self, *, name: str = "", partition_indexes: list[int] = UNSET) -> None:
        self.name = name
        self.partition_indexes: list[int] = [] if partition_indexes is UNSET else partition_indexes
