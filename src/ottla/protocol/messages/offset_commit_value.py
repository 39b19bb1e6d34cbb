"""OffsetCommitValue, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, ZERO_UUID


class OffsetCommitValue(Message):
    API_KEY = 1
    MIN_VERSION = 0
    MAX_VERSION = 4
    MAX_STABLE_VERSION = 4
    FLEXIBLE_FROM = 4
    READERS = {}
    WRITERS = {}
    __slots__ = ("offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp", "topic_id")
    SCHEMA = """
        offset int64 0+
        leader_epoch int32 3+ default:-1 ignorable
        metadata string 0+
        commit_timestamp int64 0+
        expire_timestamp int64 1 default:-1 ignorable
        topic_id uuid 4+ tag:0:4+ ignorable
    """

    def __init__(self, *,
        offset: int = 0, leader_epoch: int = -1, metadata: str = "", commit_timestamp: int = 0,
        expire_timestamp: int = -1, topic_id: bytes = ZERO_UUID,
    ) -> None:
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.commit_timestamp = commit_timestamp
        self.expire_timestamp = expire_timestamp
        self.topic_id = topic_id
