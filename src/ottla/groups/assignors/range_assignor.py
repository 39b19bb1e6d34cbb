"""The `range` assignor: each topic in contiguous ranges over its subscribers.

Subscribers have the same order for all topics: by instance id if they have one (so that a restart changes
nothing), else by member id. If two topics have the same number of partitions and the same subscribers,
partition p of both has the same owner, as joins of co-partitioned topics require.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.groups.assignors.spec import MemberSpec, TopicSpec


def assign_range(
    members: Mapping[str, MemberSpec], topics: Mapping[bytes, TopicSpec]
) -> dict[str, dict[bytes, tuple[int, ...]]]:
    subscribers: dict[bytes, list[str]] = {}
    for member_id in sorted(members, key=lambda each: (members[each].instance_id or each, each)):
        for topic_id in members[member_id].subscribed:
            if topic_id in topics:
                subscribers.setdefault(topic_id, []).append(member_id)
    assignment: dict[str, dict[bytes, tuple[int, ...]]] = {member_id: {} for member_id in members}
    for topic_id, member_ids in subscribers.items():
        share, larger_shares = divmod(topics[topic_id].partition_count, len(member_ids))
        start = 0
        for index, member_id in enumerate(member_ids):
            end = start + share + (index < larger_shares)
            if end == start:
                break
            assignment[member_id][topic_id] = tuple(range(start, end))
            start = end
    return assignment
