"""ShareFetchRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class ShareFetchRequest(Message):
    API_KEY = 78
    MIN_VERSION = 1
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "group_id", "member_id", "share_session_epoch", "max_wait_ms", "min_bytes", "max_bytes",
        "max_records", "batch_size", "share_acquire_mode", "is_renew_ack", "topics", "forgotten_topics_data",
    )
    SCHEMA = """
        group_id string 0+ null:0+ default:null
        member_id string 0+ null:0+
        share_session_epoch int32 0+
        max_wait_ms int32 0+
        min_bytes int32 0+
        max_bytes int32 0+ default:2147483647
        max_records int32 1+
        batch_size int32 1+
        share_acquire_mode int8 2+ ignorable
        is_renew_ack bool 2+
        topics []FetchTopic 0+
        forgotten_topics_data []ForgottenTopic 0+
    """

    def __init__(self, *,
        group_id: str | None = None, member_id: str | None = "", share_session_epoch: int = 0,
        max_wait_ms: int = 0, min_bytes: int = 0, max_bytes: int = 2147483647, max_records: int = 0,
        batch_size: int = 0, share_acquire_mode: int = 0, is_renew_ack: bool = False,
        topics: list[FetchTopic] = UNSET, forgotten_topics_data: list[ForgottenTopic] = UNSET,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.max_records = max_records
        self.batch_size = batch_size
        self.share_acquire_mode = share_acquire_mode
        self.is_renew_ack = is_renew_ack
        self.topics: list[FetchTopic] = [] if topics is UNSET else topics
        self.forgotten_topics_data: list[ForgottenTopic] = [] if forgotten_topics_data is UNSET else forgotten_topics_data


class FetchTopic(Struct):
    __slots__ = ("topic_id", "partitions")
    SCHEMA = """
        topic_id uuid 0+
        partitions []FetchPartition 0+
    """

    def __init__(self, *, topic_id: bytes = ZERO_UUID, partitions: list[FetchPartition] = UNSET) -> None:
        self.topic_id = topic_id
        self.partitions: list[FetchPartition] = [] if partitions is UNSET else partitions


class FetchPartition(Struct):
    __slots__ = ("partition_index", "partition_max_bytes", "acknowledgement_batches")
    SCHEMA = """
        partition_index int32 0+
        partition_max_bytes int32 0
        acknowledgement_batches []AcknowledgementBatch 0+
    """

    def __init__(self, *,
        partition_index: int = 0, partition_max_bytes: int = 0,
        acknowledgement_batches: list[AcknowledgementBatch] = UNSET,
    ) -> None:
        self.partition_index = partition_index
        self.partition_max_bytes = partition_max_bytes
        self.acknowledgement_batches: list[AcknowledgementBatch] = [] if acknowledgement_batches is UNSET else acknowledgement_batches


class AcknowledgementBatch(Struct):
    __slots__ = ("first_offset", "last_offset", "acknowledge_types")
    SCHEMA = """
        first_offset int64 0+
        last_offset int64 0+
        acknowledge_types []int8 0+
    """

    def __init__(self, *,
        first_offset: int = 0, last_offset: int = 0, acknowledge_types: list[int] = UNSET,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.acknowledge_types: list[int] = [] if acknowledge_types is UNSET else acknowledge_types


class ForgottenTopic(Struct):
    __slots__ = ("topic_id", "partitions")
    SCHEMA = """
        topic_id uuid 0+
        partitions []int32 0+
    """

    def __init__(self, *, topic_id: bytes = ZERO_UUID, partitions: list[int] = UNSET) -> None:
        self.topic_id = topic_id
        self.partitions: list[int] = [] if partitions is UNSET else partitions
