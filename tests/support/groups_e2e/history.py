"""Invariants of consumer groups, checked on the events recorded by the members."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import confluent_kafka

from tests.support.groups_e2e.reader import Watched
from tests.support.waiting import wait_until

WAIT_S = 25.0
NEVER_NS = 1 << 63
Place = tuple[int, int]  # partition and offset


class Tenure(NamedTuple):
    """The time from the assignment of a partition to its revocation or loss."""

    owner: str
    partition: int
    began_ns: int
    ended_ns: int
    lost: bool
    reads: list[tuple[int, int]]  # time and offset


def tenures_of(member: Watched) -> list[Tenure]:
    found: list[Tenure] = []
    began: dict[int, tuple[int, list[tuple[int, int]]]] = {}

    def end(partition: int, ended_ns: int, lost: bool) -> None:
        began_ns, reads = began.pop(partition)
        found.append(Tenure(member.name, partition, began_ns, ended_ns, lost, reads))

    for ns, what, partition, offset in member.events:
        if what == "+":
            assert partition not in began, f"{partition} is assigned to {member.name} twice"
            began[partition] = (ns, [])
        elif what == "r":
            assert partition in began, f"{member.name} reads {partition}:{offset} without owning it"
            began[partition][1].append((ns, offset))
        elif what in "-x" and partition in began:
            end(partition, ns, what == "x")
    for partition in list(began):
        end(partition, NEVER_NS, False)
    return found


def assert_one_owner(tenures: Iterable[Tenure], slow: Sequence[Watched] = ()) -> None:
    """Check that a partition has one owner at a time. Only the members in `slow` may notice a loss late."""
    last: dict[int, Tenure] = {}
    away = {member.name for member in slow}
    for each in sorted(tenures, key=lambda tenure: tenure.began_ns):
        before = last.get(each.partition)
        if before is not None and before.ended_ns > each.began_ns:
            assert before.lost and before.owner in away, f"two owners at once: {before[:5]} and {each[:5]}"
        last[each.partition] = each


def assert_nothing_skipped(tenures: Sequence[Tenure], written: set[Place]) -> int:
    """Check that all records are read in order; return how many were read more than once."""
    reads = sorted((ns, each.partition, offset, each.owner) for each in tenures for ns, offset in each.reads)
    upto: dict[int, int] = {}
    again = 0
    for _, partition, offset, owner in reads:
        high = upto.get(partition, 0)
        assert offset <= high, f"{owner} reads {partition}:{offset}, but {high} has not been read"
        again += offset < high
        upto[partition] = max(high, offset + 1)
    missing = [place for place in written if place[1] >= upto.get(place[0], 0)]
    assert not missing, f"{len(missing)} of {len(written)} were not read: {sorted(missing)[:5]}"
    return again


def assert_commits_hold(members: Sequence[Watched], tenures: Sequence[Tenure]) -> None:
    """No owner reads a record twice or starts before the offset committed at its assignment."""
    commits = [
        (ns, partition, offset)
        for member in members
        for ns, what, partition, offset in member.events
        if what == "c"
    ]
    assert commits
    for each in tenures:
        offsets = [offset for _, offset in each.reads]
        if not offsets:
            continue
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets))), (each.owner, offsets)
        known = max(
            (
                offset
                for ns, partition, offset in commits
                if partition == each.partition and ns < each.began_ns
            ),
            default=0,
        )
        assert offsets[0] >= known, (
            f"{each.owner} reads partition {each.partition} from {offsets[0]}, {known} was committed"
        )


def assert_history(
    members: Sequence[Watched], written: set[Place], *, again_max: int = 0, slow: Sequence[Watched] = ()
) -> None:
    assert all(member.failure is None for member in members), members
    tenures = [each for member in members for each in tenures_of(member)]
    assert_one_owner(tenures, slow)
    again = assert_nothing_skipped(tenures, written)
    assert_commits_hold(members, tenures)
    refusals = [(member.name, member.work.refusals) for member in members if hasattr(member, "work")]
    assert again <= again_max, f"{again} of {len(written)} were read twice; rejected commits: {refusals}"


def until_shared(members: Sequence[Watched], partitions: int, limit_s: float = WAIT_S) -> None:
    """Wait until every partition has an owner and every member has a fair share."""
    least, most = partitions // len(members), -(-partitions // len(members))

    def fair() -> bool:
        owned = [member.owned() for member in members]
        assert all(member.failure is None for member in members), members
        everything = sorted(partition for each in owned for partition in each)
        return everything == list(range(partitions)) and all(least <= len(each) <= most for each in owned)

    wait_until(fair, members, limit_s)


def until_read(members: Sequence[Watched], written: set[Place]) -> None:
    def left() -> set[Place]:
        read = {
            (event[2], event[3]) for member in members for event in list(member.events) if event[1] == "r"
        }
        return written - read

    wait_until(lambda: not left(), lambda: f"unread: {sorted(left())[:5]}; {members}")


class Load(threading.Thread):
    """Writes to all partitions round-robin; `stop` waits until every record is acknowledged."""

    def __init__(self, servers: str, topic: str, partitions: int, pause_s: float = 0.004) -> None:
        super().__init__(daemon=True)
        settings = {"bootstrap.servers": servers, "linger.ms": 0, "enable.idempotence": True}
        self._producer = confluent_kafka.Producer({**settings, "reconnect.backoff.max.ms": 500})
        self._topic = topic
        self._partitions = partitions
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self.written: set[Place] = set()
        self.errors: list[str] = []
        self.start()

    def run(self) -> None:
        count = 0
        while not self._stopping.wait(self._pause_s):
            place = count % self._partitions
            self._producer.produce(self._topic, b"v", partition=place, on_delivery=self._delivered)
            self._producer.poll(0)
            count += 1
        self._producer.flush(WAIT_S)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.written.add((message.partition(), message.offset()))
        else:
            self.errors.append(str(error))

    def stop(self) -> set[Place]:
        self._stopping.set()
        self.join(WAIT_S)
        assert not self.is_alive() and not self.errors, self.errors[:3]
        return self.written
