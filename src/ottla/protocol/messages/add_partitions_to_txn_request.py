"""AddPartitionsToTxnRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class AddPartitionsToTxnRequest(Message):
    API_KEY = 24
    MIN_VERSION = 0
    MAX_VERSION = 5
    MAX_STABLE_VERSION = 5
    FLEXIBLE_FROM = 3
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "transactions", "v3_and_below_transactional_id", "v3_and_below_producer_id",
        "v3_and_below_producer_epoch", "v3_and_below_topics",
    )
    SCHEMA = """
        transactions []AddPartitionsToTxnTransaction 4+
        v3_and_below_transactional_id string 0-3
        v3_and_below_producer_id int64 0-3
        v3_and_below_producer_epoch int16 0-3
        v3_and_below_topics []AddPartitionsToTxnTopic 0-3
    """

    def __init__(self, *,
        transactions: list[AddPartitionsToTxnTransaction] = UNSET, v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0, v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: list[AddPartitionsToTxnTopic] = UNSET,
    ) -> None:
        self.transactions: list[AddPartitionsToTxnTransaction] = [] if transactions is UNSET else transactions
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics: list[AddPartitionsToTxnTopic] = [] if v3_and_below_topics is UNSET else v3_and_below_topics


class AddPartitionsToTxnTransaction(Struct):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "verify_only", "topics")
    SCHEMA = """
        transactional_id string 4+
        producer_id int64 4+
        producer_epoch int16 4+
        verify_only bool 4+
        topics []AddPartitionsToTxnTopic 4+
    """

    def __init__(self, *,
        transactional_id: str = "", producer_id: int = 0, producer_epoch: int = 0, verify_only: bool = False,
        topics: list[AddPartitionsToTxnTopic] = UNSET,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.verify_only = verify_only
        self.topics: list[AddPartitionsToTxnTopic] = [] if topics is UNSET else topics


class AddPartitionsToTxnTopic(Struct):
    __slots__ = ("name", "partitions")
    SCHEMA = """
        name string 0+
        partitions []int32 0+
    """

    def __init__(self, *, name: str = "", partitions: list[int] = UNSET) -> None:
        self.name = name
        self.partitions: list[int] = [] if partitions is UNSET else partitions
