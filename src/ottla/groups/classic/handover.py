"""Partitions that move between cooperative members, as far as metadata and assignments show.

A cooperative leader does not assign a partition that another member still owns. The owner revokes it and
rejoins, and the second rebalance assigns it. If a static member dies in between, its replacement owns and
revokes nothing, so no member would trigger that second rebalance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.groups.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from ottla.groups.classic.member import ClassicMember
from ottla.protocol.errors import DecodeError


def is_left_behind(group: ClassicGroup, member: ClassicMember) -> bool:
    """Whether the member, when it last joined, owned partitions that have not been assigned since."""
    if group.protocol != CONSUMER_PROTOCOL_TYPE:
        return False
    try:
        owned = _owned(member.metadata(group.protocol_name or ""))
        if not owned:
            return False
        given = {key: None for each in group.members.values() for key in _assigned(each.assignment)}
    except DecodeError:
        return False  # clients may send arbitrary bytes
    return any(key not in given for key in owned)


def _owned(metadata: bytes) -> list[tuple[str, int]]:
    from ottla.groups.embedded_protocol import read_subscription

    return _pairs({each.topic: each.partitions for each in read_subscription(metadata).owned_partitions})


def _assigned(assignment: bytes) -> list[tuple[str, int]]:
    from ottla.groups.embedded_protocol import read_assigned

    return _pairs(read_assigned(assignment))


def _pairs(by_topic: Mapping[str, Iterable[int]]) -> list[tuple[str, int]]:
    return [(topic, number) for topic, numbers in by_topic.items() for number in numbers]
