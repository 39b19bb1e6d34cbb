"""Move a member from its current to its target assignment, one heartbeat at a time.

    STABLE                  owns its assignment of its epoch
      | a newer target                                                      ^
      v                                                                     |
    UNREVOKED_PARTITIONS    has to revoke partitions; keeps its epoch       | nothing is missing
      | reports that it no longer owns them                                 |
      v                                                                     |
    UNRELEASED_PARTITIONS   in the target's epoch; waits for partitions that others release

A step with nothing to do is skipped. For safety, a partition is assigned only after its previous owner has
left or confirmed the revocation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.groups.consumer.member import (
    STABLE,
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    Assigned,
    Member,
    overlap,
)
from ottla.groups.embedded_protocol import Partitions

if TYPE_CHECKING:
    from ottla.groups.consumer.member import Target


class Step(NamedTuple):
    """The next state of a member, from which its record is built."""

    epoch: int
    state: int
    assigned: Assigned
    revoking: Assigned


def next_step(
    member: Member,
    target: Target,
    target_epoch: int,
    owner: Callable[[bytes, int], str | None],
    owned: Partitions | None,
) -> Step | None:
    """Return None if the member does not change. `owned` is None if the member did not report it."""
    epoch = member.epoch
    if member.state == STABLE:
        if epoch == target_epoch:
            return None
    elif member.state == UNREVOKED_PARTITIONS:
        if owned is None or overlap(owned, member.revoking):
            return None
        # The member has reconciled with its epoch, even if the group has a newer one.
        epoch += 1
    step = _towards(member, epoch, target, target_epoch, owner, owned)
    before = Step(member.epoch, member.state, member.assigned, member.revoking)
    return None if step == before else step


def _towards(
    member: Member,
    epoch: int,
    target: Target,
    target_epoch: int,
    owner: Callable[[bytes, int], str | None],
    owned: Partitions | None,
) -> Step:
    kept: Assigned = {}
    revoking: Assigned = {}
    for topic_id, partitions in member.assigned.items():
        wanted = frozenset(target.get(topic_id, ()))
        for partition, since in partitions.items():
            into = kept if partition in wanted else revoking
            into.setdefault(topic_id, {})[partition] = since
    if revoking and (owned is None or overlap(owned, revoking)):
        return Step(epoch, UNREVOKED_PARTITIONS, kept, revoking)

    unreleased = False
    for topic_id, numbers in target.items():
        have = kept.get(topic_id, {})
        free: list[int] = []
        for partition in numbers:
            if partition in have:
                continue
            # The member has just confirmed the revocation of partitions that it owns itself here.
            if owner(topic_id, partition) in (None, member.member_id):
                free.append(partition)
            else:
                unreleased = True
        if free:
            kept.setdefault(topic_id, {}).update(dict.fromkeys(free, target_epoch))
    return Step(target_epoch, UNRELEASED_PARTITIONS if unreleased else STABLE, kept, {})
