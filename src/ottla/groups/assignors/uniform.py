"""The `uniform` assignor: balanced, sticky, and rack-aware for partitions that have to move.

When all members subscribe to the same topics, each member has a quota. The numbers of partitions differ by at
most one, members keep their partitions up to their quota (those that own more get the larger quotas first, so
no other balanced assignment moves fewer), and the rest is assigned round-robin. A partition that has to move
prefers a member in a rack with a replica; nothing moves for a rack alone. Other groups are balanced in
ottla.groups.assignors.mixed.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.groups.assignors.mixed import assign_mixed
from ottla.groups.assignors.spec import MemberSpec, TopicSpec

# (topic id, partition)
_Partition = tuple[bytes, int]


def assign_uniform(
    members: Mapping[str, MemberSpec], topics: Mapping[bytes, TopicSpec]
) -> dict[str, dict[bytes, tuple[int, ...]]]:
    if not members:
        return {}
    subscriptions = {spec.subscribed for spec in members.values()}
    if len(subscriptions) > 1 and len({frozenset(each) for each in subscriptions}) > 1:
        return assign_mixed(members, topics)
    # Members may list the same topics in different orders; the choice must not depend on the members' order.
    subscribed = [topic_id for topic_id in min(subscriptions) if topic_id in topics]
    held = _quota_assignment(members, topics, list(dict.fromkeys(subscribed)))
    return {member_id: _by_topic(partitions) for member_id, partitions in held.items()}


def _quota_assignment(
    members: Mapping[str, MemberSpec], topics: Mapping[bytes, TopicSpec], subscribed: list[bytes]
) -> dict[str, list[_Partition]]:
    total = sum(topics[topic_id].partition_count for topic_id in subscribed)
    quota, larger_quotas = divmod(total, len(members))
    owners: dict[bytes, list[str | None]] = {
        topic_id: [None] * topics[topic_id].partition_count for topic_id in subscribed
    }
    held = {member_id: _present(members[member_id], owners, member_id) for member_id in sorted(members)}

    for member_id, partitions in held.items():
        kept = quota
        if len(partitions) > quota and larger_quotas:
            larger_quotas -= 1
            kept += 1
        for topic_id, partition in _cut(partitions, kept, members[member_id], topics):
            owners[topic_id][partition] = None

    # A member at the quota can take one more only while larger quotas are left.
    room = {member_id: quota - len(partitions) for member_id, partitions in held.items()}
    free = [
        (topic_id, partition)
        for topic_id in subscribed
        for partition, owner in enumerate(owners[topic_id])
        if owner is None
    ]
    if free and any(spec.rack_id for spec in members.values()):
        free = _place_by_rack(free, members, topics, held, room)
    _deal(free, held, room, larger_quotas)
    return held


def _present(spec: MemberSpec, owners: dict[bytes, list[str | None]], member_id: str) -> list[_Partition]:
    """Return the partitions that the member may keep, and claim them in `owners`; the first claim counts."""
    partitions: list[_Partition] = []
    for topic_id, numbers in spec.current.items():
        owner = owners.get(topic_id)
        if owner is None:
            continue
        for partition in numbers:
            if partition < len(owner) and owner[partition] is None:
                owner[partition] = member_id
                partitions.append((topic_id, partition))
    return partitions


def _cut(
    partitions: list[_Partition], kept: int, spec: MemberSpec, topics: Mapping[bytes, TopicSpec]
) -> list[_Partition]:
    """Shorten the list to `kept` and return the rest: other racks first, then evenly from all topics."""
    if len(partitions) <= kept:
        return []
    seen: dict[bytes, int] = {}
    ranked: list[tuple[bool, int, bytes, int]] = []
    for topic_id, partition in sorted(partitions):
        nth = seen[topic_id] = seen.get(topic_id, 0) + 1
        ranked.append((_is_far(spec, topics[topic_id], partition), nth, topic_id, partition))
    ranked.sort()
    partitions[:] = [(topic_id, partition) for _, _, topic_id, partition in ranked[:kept]]
    return [(topic_id, partition) for _, _, topic_id, partition in ranked[kept:]]


def _is_far(spec: MemberSpec, topic: TopicSpec, partition: int) -> bool:
    return spec.rack_id is not None and topic.racks is not None and spec.rack_id not in topic.racks[partition]


def _place_by_rack(
    free: list[_Partition],
    members: Mapping[str, MemberSpec],
    topics: Mapping[bytes, TopicSpec],
    held: dict[str, list[_Partition]],
    room: dict[str, int],
) -> list[_Partition]:
    """Assign free partitions to members below their quota in a rack with a replica; return the rest.

    Partitions with the fewest racks come first, and go to the rack with the most unused quota.
    """
    by_rack: dict[str, list[str]] = {}
    rack_room: dict[str, int] = {}
    for member_id, spare in room.items():
        rack_id = members[member_id].rack_id
        if rack_id and spare > 0:
            by_rack.setdefault(rack_id, []).append(member_id)
            rack_room[rack_id] = rack_room.get(rack_id, 0) + spare
    choices: list[tuple[int, bytes, int, list[str]]] = []
    left: list[_Partition] = []
    for topic_id, partition in free:
        racks = topics[topic_id].racks
        near = [rack for rack in sorted(set(racks[partition])) if rack in rack_room] if racks else []
        if near:
            choices.append((len(near), topic_id, partition, near))
        else:
            left.append((topic_id, partition))
    choices.sort()
    for _, topic_id, partition, near in choices:
        rack_id = max(near, key=rack_room.__getitem__)
        if not rack_room[rack_id]:
            left.append((topic_id, partition))
            continue
        queue = by_rack[rack_id]
        member_id = queue.pop(0)
        held[member_id].append((topic_id, partition))
        rack_room[rack_id] -= 1
        room[member_id] -= 1
        if room[member_id] > 0:
            queue.append(member_id)
    return left


def _deal(
    free: list[_Partition], held: dict[str, list[_Partition]], room: dict[str, int], larger_quotas: int
) -> None:
    """Assign round-robin to members below their quota, then the larger quotas to members at their quota."""
    at = 0
    hands = [member_id for member_id, spare in room.items() if spare > 0]
    while hands:
        for member_id in hands:
            held[member_id].append(free[at])
            room[member_id] -= 1
            at += 1
        hands = [member_id for member_id in hands if room[member_id] > 0]
    for member_id, spare in room.items():
        if at == len(free):
            break
        if spare == 0:
            held[member_id].append(free[at])
            at += 1
            larger_quotas -= 1
    assert at == len(free) and larger_quotas == 0, (at, len(free), larger_quotas)


def _by_topic(partitions: list[_Partition]) -> dict[bytes, tuple[int, ...]]:
    partitions.sort()
    lists: dict[bytes, list[int]] = {}
    for topic_id, partition in partitions:
        lists.setdefault(topic_id, []).append(partition)
    return {topic_id: tuple(numbers) for topic_id, numbers in lists.items()}
