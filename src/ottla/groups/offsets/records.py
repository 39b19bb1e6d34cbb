"""Apply the records of committed offsets."""

from __future__ import annotations

from sys import intern

from ottla.groups.classic.records import classic_group
from ottla.groups.context import ShardContext
from ottla.groups.offset_table import CommittedOffset, GroupOffsets
from ottla.protocol.message import Message
from ottla.protocol.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from ottla.protocol.messages.legacy_offset_commit_value import LegacyOffsetCommitValue
from ottla.protocol.messages.offset_commit_key import OffsetCommitKey
from ottla.protocol.messages.offset_commit_value import OffsetCommitValue
from ottla.protocol.uuids import ZERO_UUID


class OffsetRecords:
    """Applies decoded records, or the fields of records during a load."""

    __slots__ = ("context",)

    def __init__(self, context: ShardContext) -> None:
        self.context = context
        context.appliers[LegacyOffsetCommitKey.API_KEY] = self._apply
        context.appliers[OffsetCommitKey.API_KEY] = self._apply

    def _apply(self, key: Message, value: Message | None, timestamp_ms: int) -> None:
        assert isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey)
        if value is None:
            self.remove(key.group, key.topic, key.partition)
        else:
            assert isinstance(value, OffsetCommitValue | LegacyOffsetCommitValue)
            self.put(key.group, key.topic, key.partition, committed_of(value))

    def apply_pending(self, key: OffsetCommitKey, value: OffsetCommitValue, producer_id: int) -> None:
        """Apply a record of a transaction: it takes effect when the transaction commits."""
        offsets = self.of_group(key.group)
        offsets.put_pending(producer_id, intern(key.topic), key.partition, committed_of(value))
        self.context.open_transactions.setdefault(producer_id, {})[key.group] = None

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        for group_id in self.context.open_transactions.pop(producer_id, ()):
            offsets = self.context.offsets.get(group_id)
            if offsets is not None:
                offsets.end_transaction(producer_id, committed)
                self._forget_if_empty(group_id, offsets)

    def put(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        offsets = self.context.offsets.get(group_id)
        if offsets is None:
            offsets = self.of_group(group_id)
        offsets.put(intern(topic), partition, committed)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        offsets = self.context.offsets.get(group_id)
        if offsets is not None:
            offsets.remove(topic, partition)
            self._forget_if_empty(group_id, offsets)

    def of_group(self, group_id: str) -> GroupOffsets:
        """Return the group's offsets; create the group if it does not exist."""
        offsets = self.context.offsets.get(group_id)
        if offsets is None:
            offsets = self.context.offsets[group_id] = GroupOffsets()
            if group_id not in self.context.groups:
                classic_group(self.context, group_id)
        return offsets

    def _forget_if_empty(self, group_id: str, offsets: GroupOffsets) -> None:
        if offsets.is_empty:
            del self.context.offsets[group_id]


def committed_of(value: OffsetCommitValue | LegacyOffsetCommitValue) -> CommittedOffset:
    if isinstance(value, OffsetCommitValue):
        return (
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
        )
    return value.offset, -1, value.metadata, value.commit_timestamp, -1, ZERO_UUID
