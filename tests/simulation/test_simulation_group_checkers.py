"""Each group checker reports its violation, and none reports a correct history."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from simulator.groups import checkers as group_checkers
from simulator.history.groups import Claim, Commit, Fetched, GroupHistory
from simulator.history.operations import FAIL, INFO, OK, PartitionName
from simulator.world import World

CHECKERS = (
    group_checkers.two_owners,
    group_checkers.skipped,
    group_checkers.went_back,
    group_checkers.lost_offset,
    group_checkers.unstable,
    group_checkers.extra_rebalances,
)
MS = 1_000_000
PARTITION = PartitionName("t", 0)


def claim(group: GroupHistory, member: str, from_ms: int, valid_ms: int, released_ms: int = -1) -> None:
    made = Claim(member, 0, from_ms * MS, valid_ms * MS)
    made.released_ns = released_ms * MS if released_ms >= 0 else -1
    group.claims.append(made)


def commit(
    group: GroupHistory, member: str, offset: int, at_ms: int, began_ms: int, outcome: str = OK
) -> None:
    made = Commit(member, 0, offset, began_ms * MS, at_ms * MS)
    made.completed_ns = (at_ms + 1) * MS
    made.outcome = outcome
    group.commits.append(made)


def fetch(group: GroupHistory, member: str, offset: int, at_ms: int, node_id: int = 1) -> None:
    group.fetched.append(Fetched(member, 0, offset, node_id, at_ms * MS, (at_ms + 1) * MS))


def good() -> GroupHistory:
    """One member reads two records, commits and hands over to another, which reads the third."""
    world = World(1)
    group = GroupHistory(world, "g", "t", 1, 1)
    world.history.final[PARTITION] = [(0, "a"), (1, "b"), (2, "c")]
    world.history.saw_leader(group.coordinated_by, 1, 1)
    fetch(group, "m", -1, 10)
    claim(group, "m", 9, 500, released_ms=100)
    group.processed[0] = {0: 20 * MS, 1: 30 * MS, 2: 120 * MS}
    commit(group, "m", 2, 40, 11)
    fetch(group, "n", 2, 110)
    claim(group, "n", 100, 500)
    commit(group, "n", 3, 130, 111)
    world.history.invoke("g", "group-stable", "t").ok()
    return group


def test_a_correct_group_history_has_no_complaints() -> None:
    group = good()
    # An expired member may still believe that it owns partitions; its commits fail.
    claim(group, "zombie", 5, 9)
    commit(group, "zombie", 1, 140, 11, FAIL)
    # A commit without a response may have taken effect late.
    commit(group, "n", 2, 150, 111, INFO)
    fetch(group, "o", 2, 200)
    # A replaced coordinator may return old state.
    fetch(group, "o", -1, 210, node_id=2)
    assert complaints(group) == []


def two_members_own_a_partition(group: GroupHistory) -> None:
    claim(group, "o", 50, 500)


def one_record_is_skipped(group: GroupHistory) -> None:
    del group.processed[0][1]


def one_record_is_processed_too_late(group: GroupHistory) -> None:
    group.processed[0][1] = 115 * MS


def the_previous_owner_commits_again(group: GroupHistory) -> None:
    commit(group, "m", 2, 140, 11)


def the_offset_is_lost(group: GroupHistory) -> None:
    fetch(group, "o", -1, 200)


def the_offset_is_stale(group: GroupHistory) -> None:
    fetch(group, "o", 2, 200)


def the_offset_was_never_committed(group: GroupHistory) -> None:
    group.processed[0][3] = 150 * MS
    fetch(group, "o", 4, 200)


def the_group_does_not_stabilize(group: GroupHistory) -> None:
    group._world.history.invoke("g", "group-stable", "t").fail("unsettled")


def a_static_restart_rebalances(group: GroupHistory) -> None:
    group.extra_rebalances.append("m was started again")


@pytest.mark.parametrize(
    ("spoil", "sign"),
    [
        (two_members_own_a_partition, "two owners"),
        (one_record_is_skipped, "skipped"),
        (one_record_is_processed_too_late, "skipped"),
        (the_previous_owner_commits_again, "went back"),
        (the_offset_is_lost, "lost offset"),
        (the_offset_is_stale, "lost offset"),
        (the_offset_was_never_committed, "lost offset"),
        (the_group_does_not_stabilize, "unstable"),
        (a_static_restart_rebalances, "extra rebalance"),
    ],
)
def test_a_group_violation_is_reported(spoil: Callable[[GroupHistory], None], sign: str) -> None:
    group = good()
    spoil(group)
    found = complaints(group)
    assert found and all(text.startswith(sign) for text in found), found


def complaints(group: GroupHistory) -> list[str]:
    return [text for checker in CHECKERS for text in checker(group._world.history)]
