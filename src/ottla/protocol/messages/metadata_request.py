"""MetadataRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class MetadataRequest(Message):
    API_KEY = 3
    MIN_VERSION = 0
    MAX_VERSION = 13
    MAX_STABLE_VERSION = 13
    FLEXIBLE_FROM = 9
    READERS = {}
    WRITERS = {}
    __slots__ = (
        "topics", "allow_auto_topic_creation", "include_cluster_authorized_operations",
        "include_topic_authorized_operations",
    )
    SCHEMA = """
        topics []MetadataRequestTopic 0+ null:1+
        allow_auto_topic_creation bool 4+ default:true
        include_cluster_authorized_operations bool 8-10
        include_topic_authorized_operations bool 8+
    """

    def __init__(self, *,
        topics: list[MetadataRequestTopic] | None = UNSET, allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
    ) -> None:
        self.topics: list[MetadataRequestTopic] | None = [] if topics is UNSET else topics
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.include_topic_authorized_operations = include_topic_authorized_operations


class MetadataRequestTopic(Struct):
    __slots__ = ("topic_id", "name")
    SCHEMA = """
        topic_id uuid 10+ ignorable
        name string 0+ null:10+
    """

    def __init__(self, *, topic_id: bytes = ZERO_UUID, name: str | None = "") -> None:
        self.topic_id = topic_id
        self.name = name
