"""Invariants of consumer groups under all faults."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.checkers import LOSSLESS, Checker
from simulator.history.groups import NOTHING_COMMITTED, Claim, Commit, Fetched, GroupHistory
from simulator.history.history import History
from simulator.history.operations import INFO, OK, OPEN

WATCH_LAG_NS = 20_000_000  # a new coordinator may be observed this much later


def two_owners(history: History) -> list[str]:
    """A partition has at most one owner at any time whose claim is valid."""
    complaints = []
    for group in history.groups.values():
        last: dict[int, Claim] = {}
        for claim in sorted(group.claims, key=lambda each: each.from_ns):
            before = last.get(claim.partition)
            if claim.until_ns <= claim.from_ns:
                continue
            if before is not None and before.until_ns > claim.from_ns and before.member != claim.member:
                text = f"{before.member} until {_s(before.until_ns)}, {claim.member} from {_s(claim.from_ns)}"
                complaints.append(f"two owners: {group.group_id}: {group.name_of(claim.partition)}: {text}")
            if before is None or claim.until_ns > before.until_ns:
                last[claim.partition] = claim
    return complaints


def skipped(history: History) -> list[str]:
    """Every record is processed, and no member starts after an unprocessed record."""
    complaints = []
    for group in history.groups.values():
        for fetched in group.fetched:
            done = group.processed[fetched.partition]
            for offset in range(max(fetched.offset, 0)):
                if done.get(offset, fetched.completed_ns) >= fetched.completed_ns:
                    where = f"{group.name_of(fetched.partition)}@{fetched.offset}"
                    text = f"{fetched.member} starts at {where}, {offset} is not processed"
                    complaints.append(f"skipped: {group.group_id}: {text}")
                    break
        for index, done in group.processed.items():
            for offset, value in history.final.get(group.name_of(index), ()):
                if offset not in done:
                    text = f"{value} at {group.name_of(index)}@{offset}"
                    complaints.append(f"skipped: {group.group_id}: not processed: {text}")
    return complaints


def went_back(history: History) -> list[str]:
    """No accepted commit goes back behind a commit that completed after its member had fetched its offset."""
    complaints = []
    for group, commits in _accepted(history):
        furthest: Commit | None = None
        ended = sorted(commits, key=lambda each: each.completed_ns)
        position = 0
        for commit in sorted(commits, key=lambda each: each.invoked_ns):
            while position < len(ended) and ended[position].completed_ns < commit.invoked_ns:
                if furthest is None or ended[position].offset > furthest.offset:
                    furthest = ended[position]
                position += 1
            if furthest is None or commit.offset >= furthest.offset:
                continue
            if commit.fetched_ns < furthest.completed_ns:
                first = f"{furthest.member} had committed {furthest.offset}"
                text = f"{group.name_of(commit.partition)}: {first}, then {commit.member} {commit.offset}"
                complaints.append(f"went back: {group.group_id}: {text}")
    return complaints


def lost_offset(history: History) -> list[str]:
    """An offset fetch returns the last acknowledged commit or a newer one.

    A commit without a response may take effect at any later time. A coordinator that was replaced and does
    not know it may return an old offset.
    """
    complaints = []
    for group in history.groups.values():
        for fetched in group.fetched:
            text = _wrong(group, fetched)
            if text and group.is_coordinator(fetched.node_id, fetched.completed_ns + WATCH_LAG_NS):
                where = f"{group.name_of(fetched.partition)} by node{fetched.node_id}"
                reported = f"{fetched.member} got {fetched.offset} for {where} at {_s(fetched.completed_ns)}"
                complaints.append(f"lost offset: {group.group_id}: {reported}; {text}")
    return complaints


def _wrong(group: GroupHistory, fetched: Fetched) -> str:
    own = [each for each in group.commits if each.partition == fetched.partition]
    possible = [each for each in own if each.invoked_ns <= fetched.completed_ns]
    done = [each for each in possible if each.outcome == OK and each.completed_ns < fetched.invoked_ns]
    newest = max(done, key=lambda each: each.offset, default=None)
    if fetched.offset == NOTHING_COMMITTED:
        return "" if newest is None else f"{newest.member} had committed {newest.offset}"
    if not any(each.offset == fetched.offset for each in possible):
        return "no member committed that"
    loose = [each.offset for each in possible if each.outcome in (INFO, OPEN)]
    if newest is None or fetched.offset >= newest.offset or fetched.offset in loose:
        return ""
    return f"{newest.member} had committed {newest.offset}"


def unstable(history: History) -> list[str]:
    """After healing, the group becomes stable, every partition has an owner, all records are processed."""
    return [
        f"unstable: {operation}"
        for operation in history.operations
        if operation.kind in ("group-stable", "group-drained", "group-offsets") and operation.outcome != OK
    ]


def extra_rebalances(history: History) -> list[str]:
    """A restart of a static member within its session timeout causes no rebalance."""
    return [
        f"extra rebalance: {text}" for group in history.groups.values() for text in group.extra_rebalances
    ]


GROUPS: tuple[Checker, ...] = (
    *LOSSLESS,
    two_owners,
    skipped,
    went_back,
    lost_offset,
    unstable,
    extra_rebalances,
)


def _accepted(history: History) -> Iterator[tuple[GroupHistory, list[Commit]]]:
    """The acknowledged commits of each partition of each group."""
    for group in history.groups.values():
        by_partition: dict[int, list[Commit]] = {}
        for commit in group.commits:
            if commit.outcome == OK:
                by_partition.setdefault(commit.partition, []).append(commit)
        for commits in by_partition.values():
            yield group, commits


def _s(ns: int) -> str:
    return f"{ns / 1_000_000_000:.6f}"
