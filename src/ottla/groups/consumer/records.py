"""Build the records of consumer groups from state. They are applied in ottla.groups.consumer.apply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.groups.consumer.member import Assigned
from ottla.machines.outcome import Record
from ottla.protocol.messages.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from ottla.protocol.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from ottla.protocol.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from ottla.protocol.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from ottla.protocol.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from ottla.protocol.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from ottla.protocol.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from ottla.protocol.messages.consumer_group_regular_expression_value import (
    ConsumerGroupRegularExpressionValue,
)
from ottla.protocol.messages.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from ottla.protocol.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from ottla.protocol.messages.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from ottla.protocol.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.groups.consumer.member import Member, ResolvedRegex, Target


def group_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    return (
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def member_value(
    member: Member | None,
    *,
    instance_id: str | None,
    rack_id: str | None,
    client_id: str,
    client_host: str,
    subscribed_topics: tuple[str, ...],
    subscribed_regex: str,
    rebalance_timeout_ms: int,
    server_assignor: str | None,
    classic: ClassicMemberMetadata | None,
) -> ConsumerGroupMemberMetadataValue | None:
    """Return the member's record value for this metadata; None if it is unchanged."""
    if (
        member is not None
        and member.instance_id == instance_id
        and member.rack_id == rack_id
        and member.client_id == client_id
        and member.client_host == client_host
        and member.subscribed_topics == subscribed_topics
        and member.subscribed_regex == subscribed_regex
        and member.rebalance_timeout_ms == rebalance_timeout_ms
        and member.server_assignor == server_assignor
        and member.classic == classic
    ):
        return None
    return ConsumerGroupMemberMetadataValue(
        instance_id=instance_id,
        rack_id=rack_id,
        client_id=client_id,
        client_host=client_host,
        subscribed_topic_names=list(subscribed_topics),
        subscribed_topic_regex=subscribed_regex,
        rebalance_timeout_ms=rebalance_timeout_ms,
        server_assignor=server_assignor,
        classic_member_metadata=classic,
    )


def member_record(group_id: str, member_id: str, member: Member) -> Record:
    """Return the metadata of `member` as a record, possibly under another id."""
    return (
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=list(member.subscribed_topics),
            subscribed_topic_regex=member.subscribed_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=member.classic,
        ),
    )


def target_record(group_id: str, member_id: str, target: Target) -> Record:
    return (
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TopicPartition(topic_id=topic_id, partitions=list(target[topic_id]))
                for topic_id in sorted(target)
            ]
        ),
    )


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    return (
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def current_record(
    group_id: str,
    member_id: str,
    *,
    epoch: int,
    previous_epoch: int,
    state: int,
    assigned: Assigned,
    revoking: Assigned,
) -> Record:
    return (
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=epoch,
            previous_member_epoch=previous_epoch,
            state=state,
            assigned_partitions=_with_epochs(assigned),
            partitions_pending_revocation=_with_epochs(revoking),
        ),
    )


def _with_epochs(assigned: Assigned) -> list[TopicPartitions]:
    topics: list[TopicPartitions] = []
    for topic_id in sorted(assigned):
        partitions = sorted(assigned[topic_id])
        topics.append(
            TopicPartitions(
                topic_id=topic_id,
                partitions=partitions,
                assignment_epochs=[assigned[topic_id][partition] for partition in partitions],
            )
        )
    return topics


def regex_record(group_id: str, pattern: str, resolved: ResolvedRegex | None) -> Record:
    return (
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern),
        None
        if resolved is None
        else ConsumerGroupRegularExpressionValue(
            topics=list(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
        ),
    )


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Return tombstones, dependent records first, so that any prefix of them leaves a consistent state."""
    return [
        (ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        (ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        (ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group_id: str, member_ids: Iterable[str], patterns: Iterable[str]) -> list[Record]:
    records: list[Record] = []
    for member_id in member_ids:
        records += member_tombstones(group_id, member_id)
    records += [regex_record(group_id, pattern, None) for pattern in patterns]
    records.append((ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None))
    records.append((ConsumerGroupMetadataKey(group_id=group_id), None))
    return records
