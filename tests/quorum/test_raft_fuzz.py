"""Random schedules of faults over a cluster in memory, and bugs planted in it that they must find."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from raft_cluster import Cluster, Node, data_batch

from ottla.quorum.errors import QuorumError
from ottla.quorum.quorum_state import QuorumState
from ottla.quorum.raft import effects as fx
from ottla.quorum.raft import fetch_service
from ottla.quorum.raft.candidate import Candidate
from ottla.quorum.raft.fetch_service import find_misfit
from ottla.quorum.raft.follower import Follower
from ottla.quorum.raft.leader import Leader
from ottla.quorum.raft.machine import RaftMachine
from ottla.quorum.snapshot import SnapshotId

# Short compared to the delays, so that a few hundred moves hold several elections.
HASTY: dict[str, Any] = {
    "election_timeout_ms": 40,
    "election_backoff_max_ms": 20,
    "fetch_timeout_ms": 80,
    "request_timeout_ms": 60,
    "fetch_max_wait_ms": 30,
}


class Checker:
    """What must hold at every moment of every schedule."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.leaders: dict[int, tuple[int, int]] = {}
        # The committed batches, by whoever was the first to call them so.
        self.committed: tuple[bytes, ...] = ()
        self.committed_end = 0
        self.marks: dict[tuple[int, int], int] = {}
        cluster.on_effect = self.on_effect

    def on_effect(self, node: Node, effect: fx.Effect) -> None:
        if isinstance(effect, fx.BecameLeader):
            known = self.leaders.setdefault(effect.epoch, (node.node_id, node.incarnation))
            assert known == (node.node_id, node.incarnation), f"two leaders in epoch {effect.epoch}"
            mine = node.log.prefix(node.log.end_offset)
            assert mine[: len(self.committed)] == self.committed, "the leader lacks what is committed"
        elif isinstance(effect, fx.HighWatermark):
            key = (node.node_id, node.incarnation)
            assert effect.offset > self.marks.get(key, -1), "the high watermark fell"
            self.marks[key] = effect.offset
        elif isinstance(effect, fx.Truncate | fx.InstallSnapshot):
            assert node.log.end_offset >= node.machine.high_watermark

    def check(self) -> None:
        for node in self.cluster.nodes.values():
            if not node.is_up or node.machine.log_is_stale:
                continue
            offset = node.machine.high_watermark
            assert offset <= max(node.log.end_offset, node.log.start), "committed but not there"
            mine = node.log.prefix(offset)
            shared = min(len(mine), len(self.committed))
            assert mine[:shared] == self.committed[:shared], "two values for a committed offset"
            if offset > self.committed_end:
                self.committed, self.committed_end = mine, offset


# How often what happens: storms that write much, and storms that elect much.
WRITING = {
    "append": 30,
    "flush": 45,
    "crash": 5,
    "restart": 8,
    "isolate": 2,
    "heal": 5,
    "snapshot": 2,
    "stall": 3,
}
ELECTING = {
    "append": 5,
    "flush": 45,
    "bounce": 10,
    "depose": 12,
    "restart": 20,
    "isolate": 2,
    "heal": 5,
    "stall": 3,
}


class Schedule:
    """A seeded storm over a cluster, and then calm."""

    def __init__(self, seed: int, **options: Any) -> None:
        self.rng = rng = random.Random(seed)
        size = options.pop("size", None) or rng.choice((3, 3, 3, 4, 5))
        self.cluster = cluster = Cluster(
            range(1, size + 1), seed=seed, fetch_max_bytes=rng.choice((1, 1 << 20)), **HASTY, **options
        )
        cluster.auto_flush = False
        self.weights = rng.choice((WRITING, ELECTING))
        cluster.delay = lambda: rng.choice((0, 1, 1, 2, 5, 20))
        loss = rng.choice((0.0, 0.05, 0.2))
        cluster.loses = lambda: rng.random() < loss
        cluster.doubles = lambda: rng.random() < loss / 2
        self.checker = Checker(cluster)
        self.values = 0

    def act(self) -> None:
        rng, cluster = self.rng, self.cluster
        node = rng.choice(list(cluster.nodes.values()))
        (kind,) = rng.choices(list(self.weights), list(self.weights.values()))
        if kind == "append":
            for leader in cluster.leaders:
                self.append(leader)
        elif kind == "flush":
            cluster.flush(node)
        elif kind == "isolate":
            cluster.isolate(node.node_id)
        elif kind == "heal":
            cluster.cut.clear()
        elif kind == "snapshot":
            self.snapshot(node)
        elif kind == "stall":
            cluster.now_ms += rng.randrange(100)
        else:
            self.end_a_process(kind, node)

    def end_a_process(self, kind: str, node: Node) -> None:
        rng, cluster = self.rng, self.cluster
        if kind == "restart":
            down = [other for other in cluster.nodes.values() if not other.is_up]
            if down:
                cluster.restart(rng.choice(down))
            return
        if kind == "depose" and cluster.leaders:
            node = rng.choice(cluster.leaders)
            if rng.random() < 0.5:
                cluster.flush(node)
        if node.is_up:
            cluster.crash(node, rng.randrange(3))
            if kind == "bounce":
                cluster.restart(node)

    def append(self, leader: Node) -> None:
        self.values += 1
        log = leader.log
        log.append_own(data_batch(b"%d" % self.values, leader.machine.epoch), leader.machine.epoch)
        self.cluster.step(leader, _appended())

    def snapshot(self, node: Node) -> None:
        end_offset = node.machine.high_watermark
        if node.is_up and end_offset > node.log.start and node.log.flushed_offset >= end_offset:
            node.take_snapshot()

    def move(self) -> None:
        """One message or tick, most often the earliest, sometimes any."""
        cluster = self.cluster
        if cluster.wire and self.rng.random() < 0.2:
            cluster.deliver(self.rng.randrange(len(cluster.wire)))
        else:
            cluster.run_next(cluster.now_ms + 400)

    def storm(self, moves: int) -> None:
        for _ in range(moves):
            if self.rng.random() < 0.3:
                self.act()
            else:
                self.move()
            self.checker.check()

    def calm(self) -> None:
        """Everything heals: then a leader comes, a new record is committed, and all have it."""
        cluster = self.cluster
        cluster.cut.clear()
        cluster.loses = cluster.doubles = lambda: False
        cluster.delay = lambda: 1
        cluster.auto_flush = True
        for node in cluster.nodes.values():
            if not node.is_up:
                cluster.restart(node)
            cluster.flush(node)
        self._until(lambda: cluster.is_settled() and cluster.is_caught_up())
        before = self.checker.committed_end
        cluster.append(cluster.leader, b"after the storm")
        self._until(lambda: self.checker.committed_end > before and cluster.is_caught_up())

    def _until(self, condition: Callable[[], bool]) -> None:
        end_ms = self.cluster.now_ms + 20_000
        moves = 0
        while not condition():
            moves += 1
            assert moves < 5000, f"busy for nothing: {self.cluster.describe()}"
            assert self.cluster.run_next(end_ms), f"no progress: {self.cluster.describe()}"
            self.checker.check()

    def run(self, moves: int = 300) -> Schedule:
        self.storm(moves)
        self.calm()
        return self


def _appended() -> Any:
    from ottla.quorum.raft.events import LocalAppended

    return LocalAppended()


@pytest.mark.parametrize("block", range(8))
def test_nothing_committed_is_lost_in_any_schedule(block: int) -> None:
    committed = 0
    for seed in range(block * 125, block * 125 + 125):
        try:
            committed += Schedule(seed).run().checker.committed_end
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    assert committed > 1000, "the schedules commit too little to mean anything"


# -- planted bugs --------------------------------------------------------------------------------------------


def forget_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The vote is not written to quorum-state."""

    def without_vote(self: Cluster, state: QuorumState) -> QuorumState:
        return QuorumState(leader_id=state.leader_id, leader_epoch=state.leader_epoch, voters=state.voters)

    monkeypatch.setattr(Cluster, "save", without_vote)


def commit_earlier_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a majority has counts as committed, though nothing of the leader's epoch is."""
    original = Leader.update_high_watermark

    def update(self: Leader) -> None:
        start_offset, self.start_offset = self.start_offset, -1
        original(self)
        self.start_offset = start_offset

    monkeypatch.setattr(Leader, "update_high_watermark", update)


def keep_diverged_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that is told where it diverges goes on as if nothing was wrong."""
    monkeypatch.setattr(fetch_service, "find_misfit", _misfit_only_beyond_the_end)


def _misfit_only_beyond_the_end(log: Any, offset: int, last_epoch: int) -> Any:
    found = find_misfit(log, offset, last_epoch)
    return found if isinstance(found, SnapshotId) or offset > log.end_offset else None


def count_unflushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader counts what it has only written."""
    monkeypatch.setattr(Leader, "own_offset", property(lambda self: self.machine.log.end_offset))


def fetch_unflushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower asks for more before what it has is on disk."""
    monkeypatch.setattr(Follower, "_waits_for_disk", property(lambda self: False))


def vote_for_shorter_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of a candidate is not looked at."""
    monkeypatch.setattr(RaftMachine, "is_up_to_date", lambda self, last_epoch, last_offset: True)


def lead_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate that is restarted stands again in the same epoch, now perhaps with a shorter log."""
    original = RaftMachine._first_role

    def first_role(self: RaftMachine, stored: QuorumState, now_ms: int) -> Any:
        if stored.voted_id == self.config.node_id and stored.leader_id < 0:
            return Candidate(self, now_ms)
        return original(self, stored, now_ms)

    monkeypatch.setattr(RaftMachine, "_first_role", first_role)


PLANTED = [
    forget_votes,
    commit_earlier_epochs,
    keep_diverged_tails,
    count_unflushed,
    fetch_unflushed,
    vote_for_shorter_logs,
    lead_again,
]


@pytest.mark.parametrize("plant", PLANTED)
def test_a_planted_bug_is_found(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(3000):
        try:
            Schedule(seed).run()
        except (AssertionError, QuorumError) as error:
            print(plant.__name__, "seed", seed, error)
            return
    pytest.fail("not found in 3000 schedules")
