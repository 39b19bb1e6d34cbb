"""The target of a group: its subscribed topics, and the assignment of their partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.groups.assignors import ASSIGNORS, MemberSpec, TopicSpec
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.member import Target
from ottla.groups.topics_view import TopicsView

_HASH_MASK = (1 << 63) - 1


def topic_hashes(names: Iterable[str], topics: TopicsView) -> dict[str, int]:
    """Return the hashes of existing topics, ordered by name."""
    hashes: dict[str, int] = {}
    for name in sorted(names):
        topic_id = topics.topic_id(name)
        if topic_id is not None:
            hashes[name] = topics.topic_hash(topic_id)
    return hashes


def metadata_hash(hashes: Mapping[str, int]) -> int:
    """A hash that changes with everything in these topics that an assignment depends on; 0 for no topics."""
    digest = 0
    for each in hashes.values():
        digest = (digest * 1_000_003 ^ each) & _HASH_MASK
    return digest


def supported_assignors(names: Iterable[str]) -> list[str]:
    """Return the supported assignors among `names`; all assignors if none is supported."""
    return [name for name in names if name in ASSIGNORS] or list(ASSIGNORS)


def compute_targets(group: ConsumerGroup, topics: TopicsView, default_assignor: str) -> dict[str, Target]:
    topic_ids = {name: topics.topic_id(name) for name in group.subscribed_topics}
    with_racks = any(member.rack_id for member in group.members.values())
    topic_specs = {
        topic_id: _topic_spec(topic_id, topics, with_racks)
        for topic_id in topic_ids.values()
        if topic_id is not None
    }
    # Most members subscribe to the same topics: share one tuple.
    subscriptions: dict[tuple[str, ...], tuple[bytes, ...]] = {}
    members: dict[str, MemberSpec] = {}
    for member_id, member in group.members.items():
        names = group.topics_of(member)
        subscribed = subscriptions.get(names)
        if subscribed is None:
            ids = (topic_ids[name] for name in names)
            subscribed = subscriptions[names] = tuple(sorted(each for each in ids if each is not None))
        members[member_id] = MemberSpec(
            subscribed,
            group.targets.get(member_id),
            instance_id=member.instance_id,
            rack_id=member.rack_id,
        )
    # Another coordinator may have supported assignors that are unknown here.
    assign = ASSIGNORS.get(group.preferred_assignor(default_assignor), ASSIGNORS[default_assignor])
    return assign(members, topic_specs)


def _topic_spec(topic_id: bytes, topics: TopicsView, with_racks: bool) -> TopicSpec:
    count = topics.partition_count(topic_id)
    if not with_racks:
        return TopicSpec(count)
    racks = [tuple(topics.partition_racks(topic_id, partition)) for partition in range(count)]
    return TopicSpec(count, racks if any(racks) else None)
