"""ConsumerGroupDescribe: the state, members and assignments of a consumer group."""

from __future__ import annotations

from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.member import Member
from ottla.groups.consumer.membership import Membership
from ottla.groups.embedded_protocol import Partitions
from ottla.groups.topics_view import TopicsView
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe_response import (
    Assignment,
    DescribedGroup,
    TopicPartitions,
)
from ottla.protocol.messages.consumer_group_describe_response import Member as DescribedMember

_CLASSIC_MEMBER = 0
_CONSUMER_MEMBER = 1


def describe_group(membership: Membership, group_id: str) -> DescribedGroup:
    group = membership.context.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        what = "not found" if group is None else "not a consumer group"
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} {what}.",
        )
    topics = membership.context.topics
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(membership.assignors[0]),
        members=[_describe_member(group, member, topics) for member in group.members.values()],
    )


def _describe_member(group: ConsumerGroup, member: Member, topics: TopicsView) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topics),
        subscribed_topic_regex=member.subscribed_regex or None,
        assignment=_assignment(member.assigned, topics),
        target_assignment=_assignment(group.targets.get(member.member_id, {}), topics),
        member_type=_CLASSIC_MEMBER if member.uses_classic_protocol else _CONSUMER_MEMBER,
    )


def _assignment(partitions: Partitions, topics: TopicsView) -> Assignment:
    named: list[TopicPartitions] = []
    for topic_id, numbers in partitions.items():
        name = topics.topic_name(topic_id)
        if name is not None:
            named.append(TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(numbers)))
    named.sort(key=lambda each: each.topic_name)
    return Assignment(topic_partitions=named)
