"""Apply the records of consumer groups: the only code that changes their durable state.

Compaction changes the order of records within a group (a member's metadata may follow its assignment), so
every record creates what it needs, and a tombstone for something unknown is ignored.
"""

from __future__ import annotations

from typing import cast

from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.member import (
    LEAVING,
    STABLE,
    UNKNOWN_STATE,
    UNRELEASED_PARTITIONS,
    Assigned,
    Member,
    ResolvedRegex,
)
from ottla.groups.context import Applier, ShardContext
from ottla.protocol.message import Message
from ottla.protocol.messages.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from ottla.protocol.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from ottla.protocol.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from ottla.protocol.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from ottla.protocol.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from ottla.protocol.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from ottla.protocol.messages.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from ottla.protocol.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from ottla.protocol.messages.consumer_group_regular_expression_value import (
    ConsumerGroupRegularExpressionValue,
)
from ottla.protocol.messages.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from ottla.protocol.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
)
from ottla.protocol.messages.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from ottla.protocol.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)


def add_appliers(context: ShardContext) -> None:
    appliers = ConsumerAppliers(context)
    by_type: dict[int, Applier] = {
        ConsumerGroupMetadataKey.API_KEY: appliers.group_metadata,
        ConsumerGroupPartitionMetadataKey.API_KEY: appliers.partition_metadata,
        ConsumerGroupMemberMetadataKey.API_KEY: appliers.member_metadata,
        ConsumerGroupTargetAssignmentMetadataKey.API_KEY: appliers.target_metadata,
        ConsumerGroupTargetAssignmentMemberKey.API_KEY: appliers.target_member,
        ConsumerGroupCurrentMemberAssignmentKey.API_KEY: appliers.current_assignment,
        ConsumerGroupRegularExpressionKey.API_KEY: appliers.regular_expression,
    }
    context.appliers.update(by_type)


class ConsumerAppliers:
    __slots__ = ("_context",)

    def __init__(self, context: ShardContext) -> None:
        self._context = context

    def group_metadata(self, key: Message, value: Message | None, timestamp_ms: int) -> None:
        key = cast(ConsumerGroupMetadataKey, key)
        if value is None:
            group = self._known(key.group_id)
            if group is not None:
                group.discard()
                del self._context.groups[key.group_id]
            return
        value = cast(ConsumerGroupMetadataValue, value)
        group = self._made(key.group_id)
        group.epoch = value.epoch
        group.epoch_since_ms = timestamp_ms
        group.metadata_hash = value.metadata_hash

    def partition_metadata(self, key: Message, value: Message | None, timestamp_ms: int) -> None:
        """Ignore the record: older coordinators wrote it in place of the metadata hash."""

    def member_metadata(self, key: Message, value: Message | None, timestamp_ms: int) -> None:
        key = cast(ConsumerGroupMemberMetadataKey, key)
        if value is None:
            group = self._known(key.group_id)
            if group is not None:
                self._remove_member(group, key.member_id)
            return
        value = cast(ConsumerGroupMemberMetadataValue, value)
        group = self._made(key.group_id)
        member = _made_member(group, key.member_id)
        _forget_instance(group, member)
        member.instance_id = value.instance_id or None
        member.rack_id = value.rack_id or None
        member.client_id = value.client_id
        member.client_host = value.client_host
        member.subscribed_topics = tuple(value.subscribed_topic_names)
        member.subscribed_regex = value.subscribed_topic_regex or ""
        member.rebalance_timeout_ms = value.rebalance_timeout_ms
        member.server_assignor = value.server_assignor or None
        member.classic = value.classic_member_metadata
        if member.instance_id is not None:
            group.static_ids[member.instance_id] = key.member_id
        group.subscriptions_changed()

    def _remove_member(self, group: ConsumerGroup, member_id: str) -> None:
        member = group.members.pop(member_id, None)
        if member is None:
            return
        _release(group, member)
        member.discard_timers()
        _forget_instance(group, member)
        group.subscriptions_changed()

    def target_metadata(self, key: Message, value: Message | None, timestamp_ms: int) -> None:
        key = cast(ConsumerGroupTargetAssignmentMetadataKey, key)
        if value is None:
            group = self._known(key.group_id)
            if group is not None:
                group.assignment_epoch = -1
            return
        value = cast(ConsumerGroupTargetAssignmentMetadataValue, value)
        group = self._made(key.group_id)
        group.assignment_epoch = value.assignment_epoch
        group.assigned_at_ms = value.assignment_timestamp

    def target_member(self, key: Message, value: Message | None, timestamp_ms: int) -> None:
        key = cast(ConsumerGroupTargetAssignmentMemberKey, key)
        if value is None:
            group = self._known(key.group_id)
            if group is not None:
                group.targets.pop(key.member_id, None)
            return
        value = cast(ConsumerGroupTargetAssignmentMemberValue, value)
        self._made(key.group_id).targets[key.member_id] = {
            topic.topic_id: tuple(topic.partitions) for topic in value.topic_partitions
        }

    def current_assignment(self, key: Message, value: Message | None, timestamp_ms: int) -> None:
        key = cast(ConsumerGroupCurrentMemberAssignmentKey, key)
        if value is None:
            group = self._known(key.group_id)
            member = None if group is None else group.members.get(key.member_id)
            if group is not None and member is not None:
                _release(group, member)
                member.epoch = member.previous_epoch = LEAVING
                member.state = STABLE
                member.assigned, member.revoking = {}, {}
            return
        value = cast(ConsumerGroupCurrentMemberAssignmentValue, value)
        group = self._made(key.group_id)
        member = _made_member(group, key.member_id)
        _release(group, member)
        member.epoch = value.member_epoch
        member.previous_epoch = value.previous_member_epoch
        member.state = value.state if STABLE <= value.state <= UNRELEASED_PARTITIONS else UNKNOWN_STATE
        member.assigned = _read_assigned(value.assigned_partitions, value.member_epoch)
        member.revoking = _read_assigned(value.partitions_pending_revocation, value.member_epoch)
        for held in (member.assigned, member.revoking):
            for topic_id, partitions in held.items():
                group.owners.setdefault(topic_id, {}).update(dict.fromkeys(partitions, key.member_id))

    def regular_expression(self, key: Message, value: Message | None, timestamp_ms: int) -> None:
        key = cast(ConsumerGroupRegularExpressionKey, key)
        if value is None:
            group = self._known(key.group_id)
            if group is not None and group.regexes.pop(key.regular_expression, None) is not None:
                group.subscriptions_changed()
            return
        value = cast(ConsumerGroupRegularExpressionValue, value)
        group = self._made(key.group_id)
        group.regexes[key.regular_expression] = ResolvedRegex(
            tuple(value.topics), value.version, value.timestamp
        )
        group.subscriptions_changed()

    def _known(self, group_id: str) -> ConsumerGroup | None:
        group = self._context.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _made(self, group_id: str) -> ConsumerGroup:
        """Return the group; create it if it does not exist, with the history of a group of another type."""
        group = self._context.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group is None:
            history = self._context.new_history()
        else:
            history = group.history
            group.discard()
        made = self._context.groups[group_id] = ConsumerGroup(group_id, history)
        return made


def _made_member(group: ConsumerGroup, member_id: str) -> Member:
    member = group.members.get(member_id)
    if member is None:
        member = group.members[member_id] = Member(member_id)
    return member


def _forget_instance(group: ConsumerGroup, member: Member) -> None:
    if member.instance_id is not None and group.static_ids.get(member.instance_id) == member.member_id:
        del group.static_ids[member.instance_id]


def _release(group: ConsumerGroup, member: Member) -> None:
    """Release the member's partitions, except those that another member owns by now."""
    for held in (member.assigned, member.revoking):
        for topic_id, partitions in held.items():
            owners = group.owners.get(topic_id)
            if owners is None:
                continue
            for partition in partitions:
                if owners.get(partition) == member.member_id:
                    del owners[partition]
            if not owners:
                del group.owners[topic_id]


def _read_assigned(topics: list[TopicPartitions], member_epoch: int) -> Assigned:
    """Read assigned partitions. Without epochs (in older records) the member's epoch applies."""
    assigned: Assigned = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            assigned[topic.topic_id] = dict.fromkeys(topic.partitions, member_epoch)
        else:
            assigned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return assigned
