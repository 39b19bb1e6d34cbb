"""ProduceRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Records, Struct, UNSET, ZERO_UUID


class ProduceRequest(Message):
    API_KEY = 0
    MIN_VERSION = 3
    MAX_VERSION = 13
    MAX_STABLE_VERSION = 13
    FLEXIBLE_FROM = 9
    READERS = {}
    WRITERS = {}
    __slots__ = ("transactional_id", "acks", "timeout_ms", "topic_data")
    SCHEMA = """
        transactional_id string 3+ null:3+ default:null
        acks int16 0+
        timeout_ms int32 0+
        topic_data []TopicProduceData 0+
    """

    def __init__(self, *,
        transactional_id: str | None = None, acks: int = 0, timeout_ms: int = 0,
        topic_data: list[TopicProduceData] = UNSET,
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data: list[TopicProduceData] = [] if topic_data is UNSET else topic_data


class TopicProduceData(Struct):
    __slots__ = ("name", "topic_id", "partition_data")
    SCHEMA = """
        name string 0-12 ignorable
        topic_id uuid 13+ ignorable
        partition_data []PartitionProduceData 0+
    """

    def __init__(self, *,
        name: str = "", topic_id: bytes = ZERO_UUID, partition_data: list[PartitionProduceData] = UNSET,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_data: list[PartitionProduceData] = [] if partition_data is UNSET else partition_data


class PartitionProduceData(Struct):
    __slots__ = ("index", "records")
    SCHEMA = """
        index int32 0+
        records records 0+ null:0+
    """

    def __init__(self, *, index: int = 0, records: Records = None) -> None:
        self.index = index
        self.records = records
