"""ShareSnapshotKey, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, ZERO_UUID


class ShareSnapshotKey(Message):
    API_KEY = 0
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 32767
    READERS = {}
    WRITERS = {}
    __slots__ = ("group_id", "topic_id", "partition")
    SCHEMA = """
        group_id string 0
        topic_id uuid 0
        partition int32 0
    """

    def __init__(self, *, group_id: str = "", topic_id: bytes = ZERO_UUID, partition: int = 0) -> None:
        self.group_id = group_id
        self.topic_id = topic_id
        self.partition = partition
