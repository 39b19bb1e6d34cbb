"""Conversion between wire structures of groups and the client's types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from struct import error as StructError  # noqa: N812

from ottla.client.core.group_types import (
    CLASSIC,
    CONSUMER,
    CommittedOffset,
    GroupInfo,
    GroupMember,
    Rebalance,
    RebalanceCause,
    TopicPartition,
)
from ottla.protocol.errors import DecodeError
from ottla.protocol.messages import (
    consumer_group_describe_response,
    consumer_protocol_assignment,
    consumer_protocol_subscription,
    describe_groups_response,
)
from ottla.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

PROTOCOL_TYPE = "consumer"
CLASSIC_MEMBER = 0

_VERSION = Struct(">h")
# Every client reads version 0, and an eager member needs no field of later ones.
SUBSCRIPTION_VERSION = 0
ASSIGNMENT_VERSION = 0


def partitions_by_topic(keys: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(keys):
        found.setdefault(topic, []).append(partition)
    return found


# The embedded formats of classic members: a version, then a message.


def write_subscription(topics: Iterable[str]) -> bytes:
    message = ConsumerProtocolSubscription(topics=sorted(topics))
    return _VERSION.pack(SUBSCRIPTION_VERSION) + message.encode(SUBSCRIPTION_VERSION)


def read_subscription(data: bytes) -> list[str]:
    """The topics. Raises DecodeError."""
    if not data:
        return []
    version = _version(data, consumer_protocol_subscription.ConsumerProtocolSubscription.MAX_VERSION)
    return ConsumerProtocolSubscription.read(version, data, _VERSION.size)[0].topics


def write_assignment(keys: Iterable[TopicPartition]) -> bytes:
    wire = consumer_protocol_assignment
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            wire.TopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in partitions_by_topic(keys).items()
        ]
    )
    return _VERSION.pack(ASSIGNMENT_VERSION) + message.encode(ASSIGNMENT_VERSION)


def read_assignment(data: bytes) -> list[TopicPartition]:
    """Raises DecodeError."""
    if not data:
        return []
    version = _version(data, ConsumerProtocolAssignment.MAX_VERSION)
    message = ConsumerProtocolAssignment.read(version, data, _VERSION.size)[0]
    return sorted((row.topic, number) for row in message.assigned_partitions for number in row.partitions)


def _version(data: bytes, newest: int) -> int:
    """Later versions begin like the newest known one."""
    try:
        version: int = _VERSION.unpack_from(data)[0]
    except StructError as error:
        raise DecodeError("no version") from error
    return min(max(version, 0), newest)


# Descriptions.


def classic_group(row: describe_groups_response.DescribedGroup, coordinator: int) -> GroupInfo:
    rebalances = _rebalances(row.rebalances)
    ended = [each.epoch for each in rebalances if each.ended_ms >= 0]
    epoch = ended[-1] if ended else -1
    return GroupInfo(
        row.group_id,
        row.group_state,
        CLASSIC,
        row.protocol_type,
        row.protocol_data,
        epoch,
        epoch,
        coordinator,
        [_classic_member(member, row.protocol_type) for member in row.members],
        rebalances,
    )


def _classic_member(row: describe_groups_response.DescribedGroupMember, protocol_type: str) -> GroupMember:
    topics: list[str] = []
    assignment: list[TopicPartition] = []
    if protocol_type == PROTOCOL_TYPE:
        # Any client may have written this: show what can be decoded.
        try:
            topics = read_subscription(bytes(row.member_metadata))
            assignment = read_assignment(bytes(row.member_assignment))
        except DecodeError:
            pass
    return GroupMember(
        row.member_id, row.group_instance_id, row.client_id, row.client_host, assignment, topics=topics
    )


def consumer_group(row: consumer_group_describe_response.DescribedGroup, coordinator: int) -> GroupInfo:
    return GroupInfo(
        row.group_id,
        row.group_state,
        CONSUMER,
        PROTOCOL_TYPE,
        row.assignor_name,
        row.group_epoch,
        row.assignment_epoch,
        coordinator,
        [_consumer_member(member) for member in row.members],
        _rebalances(row.rebalances),
    )


def _consumer_member(row: consumer_group_describe_response.Member) -> GroupMember:
    return GroupMember(
        row.member_id,
        row.instance_id,
        row.client_id,
        row.client_host,
        _assigned(row.assignment),
        _assigned(row.target_assignment),
        row.member_epoch,
        sorted(row.subscribed_topic_names),
        row.subscribed_topic_regex or None,
        row.rack_id,
        CLASSIC if row.member_type == CLASSIC_MEMBER else CONSUMER,
    )


def _assigned(row: consumer_group_describe_response.Assignment) -> list[TopicPartition]:
    return sorted((each.topic_name, number) for each in row.topic_partitions for number in each.partitions)


def _rebalances(
    rows: Iterable[describe_groups_response.Rebalance | consumer_group_describe_response.Rebalance],
) -> list[Rebalance]:
    return [
        Rebalance(
            row.began_ms,
            row.ended_ms,
            row.generation,
            row.member_count,
            [
                RebalanceCause(
                    each.what, each.at_ms, each.member_id, each.client_id, each.client_host, each.detail
                )
                for each in row.triggers
            ],
            row.triggers_left_out,
        )
        for row in rows
    ]


# Offsets.


def commit_topics(offsets: Mapping[TopicPartition, CommittedOffset | int]) -> list[OffsetCommitRequestTopic]:
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (topic, partition), given in offsets.items():
        committed = CommittedOffset(given) if isinstance(given, int) else given
        row = topics.setdefault(topic, OffsetCommitRequestTopic(name=topic))
        row.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return list(topics.values())
