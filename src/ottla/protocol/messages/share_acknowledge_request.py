"""ShareAcknowledgeRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class ShareAcknowledgeRequest(Message):
    API_KEY = 79
    MIN_VERSION = 1
    MAX_VERSION = 2
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("group_id", "member_id", "share_session_epoch", "is_renew_ack", "topics")
    SCHEMA = """
        group_id string 0+ null:0+ default:null
        member_id string 0+ null:0+
        share_session_epoch int32 0+
        is_renew_ack bool 2+
        topics []AcknowledgeTopic 0+
    """

    def __init__(self, *,
        group_id: str | None = None, member_id: str | None = "", share_session_epoch: int = 0,
        is_renew_ack: bool = False, topics: list[AcknowledgeTopic] = UNSET,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.is_renew_ack = is_renew_ack
        self.topics: list[AcknowledgeTopic] = [] if topics is UNSET else topics


class AcknowledgeTopic(Struct):
    __slots__ = ("topic_id", "partitions")
    SCHEMA = """
        topic_id uuid 0+
        partitions []AcknowledgePartition 0+
    """

    def __init__(self, *,
        topic_id: bytes = ZERO_UUID, partitions: list[AcknowledgePartition] = UNSET,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[AcknowledgePartition] = [] if partitions is UNSET else partitions


class AcknowledgePartition(Struct):
    __slots__ = ("partition_index", "acknowledgement_batches")
    SCHEMA = """
        partition_index int32 0+
        acknowledgement_batches []AcknowledgementBatch 0+
    """

    def __init__(self, *,
        partition_index: int = 0, acknowledgement_batches: list[AcknowledgementBatch] = UNSET,
    ) -> None:
        self.partition_index = partition_index
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
