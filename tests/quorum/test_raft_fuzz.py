"""Random schedules of faults over a cluster in memory, and bugs planted in it that they must find."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

from ottla.quorum.errors import QuorumError
from ottla.quorum.quorum_state import QuorumState
from ottla.quorum.raft import effects as fx
from ottla.quorum.raft import leader_fetches
from ottla.quorum.raft.follower import Follower
from ottla.quorum.raft.leader import Leader
from ottla.quorum.raft.leader_fetches import find_misfit
from ottla.quorum.raft.node import RaftNode
from ottla.quorum.snapshot import SnapshotId
from tests.support.quorum.raft_cluster import Cluster, Node, add_request, remove_request

# Of each kind of storm: a hundred, or thousands with HYPOTHESIS_PROFILE=thorough.
SCHEDULES = 2 * settings().max_examples
# Short compared to the delays, so that a few hundred moves hold several elections.
HASTY: dict[str, Any] = {
    "election_timeout_ms": 40,
    "election_backoff_max_ms": 20,
    "fetch_timeout_ms": 80,
    "request_timeout_ms": 100,
    "fetch_max_wait_ms": 30,
}


class Checker:
    """What must hold at every moment of every schedule."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.leaders: dict[int, tuple[int, int]] = {}
        # The committed batches, by the first node that reported them.
        self.committed: tuple[bytes, ...] = ()
        self.committed_end = 0
        self.marks: dict[tuple[int, int], int] = {}

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
            if not node.is_up or node.machine.node.log_is_stale:
                continue
            offset = node.machine.high_watermark
            assert offset <= max(node.log.end_offset, node.log.start), "committed but not there"
            mine = node.log.prefix(offset)
            shared = min(len(mine), len(self.committed))
            assert mine[:shared] == self.committed[:shared], "two values for a committed offset"
            if offset > self.committed_end:
                self.committed, self.committed_end = mine, offset


class Storm(NamedTuple):
    """How often each fault happens, whether writes are flushed at once, and which nodes are killed when."""

    rate: float
    weights: dict[str, int]
    flushes: bool
    delays_ms: tuple[int, ...] = (0, 1, 1, 2, 5, 20)
    draws_below: int = 1 << 30
    kills: str = ""


WRITING = Storm(  # much is written, and the disk is slow
    0.3,
    {"append": 30, "flush": 45, "crash": 5, "restart": 8, "isolate": 2, "heal": 5, "snapshot": 2, "stall": 3},
    flushes=False,
)
VOTING = Storm(  # several stand for election at once, and voters are restarted when they have voted
    0.02,
    {"append": 5, "bounce": 3, "restart": 10, "isolate": 2, "heal": 5},
    flushes=True,
    delays_ms=(1, 5, 10, 20, 40),
    draws_below=25,
    kills="voter",
)
RESIZING = Storm(  # voters come and go
    0.25,
    {
        "append": 20,
        "resize": 40,
        "flush": 45,
        "crash": 4,
        "restart": 8,
        "isolate": 2,
        "heal": 5,
        "snapshot": 2,
    },
    flushes=False,
)
DEPOSING = Storm(  # leaders are deposed soon, and return when the next one falls
    0.03,
    {"append": 20, "restart": 2, "isolate": 2, "heal": 5, "snapshot": 2},
    flushes=True,
    kills="leader",
)
STORMS = (WRITING, VOTING, DEPOSING, RESIZING)


class Schedule:
    """A seeded storm over a cluster, and then calm."""

    def __init__(self, seed: int, kind: Storm | None = None) -> None:
        self.rng = rng = random.Random(seed)
        self.kind = kind or STORMS[seed % len(STORMS)]
        size = rng.choice((3, 3, 3, 4, 5))
        one_batch = rng.random() < 0.5
        is_dynamic = self.kind is RESIZING
        self.cluster = cluster = Cluster(
            range(1, size + 1),
            seed=seed,
            dynamic=is_dynamic,
            fetch_max_bytes=1 if one_batch else 1 << 20,
            **HASTY,
        )
        if is_dynamic:
            for node_id in (size + 1, size + 2):
                cluster.add_node(node_id)
        cluster.auto_flush = self.kind.flushes
        cluster.delay = lambda: rng.choice(self.kind.delays_ms)
        cluster.draws_below = self.kind.draws_below
        loss = rng.choice((0.0, 0.05, 0.2))
        cluster.loses = lambda: rng.random() < loss
        cluster.doubles = lambda: rng.random() < loss / 2
        self.checker = Checker(cluster)
        self.is_storm = True
        self.victim: Node | None = None
        cluster.on_effect = self.on_effect
        self.values = 0

    def on_effect(self, node: Node, effect: fx.Effect) -> None:
        self.checker.on_effect(node, effect)
        has_voted = isinstance(effect, fx.Persist) and effect.state.voted_id not in (-1, node.node_id)
        if not self.is_storm or self.rng.random() < 0.3:
            return
        if self.kind.kills == "voter" and has_voted:
            self.after(1, lambda: self.kill(node, node))
        elif self.kind.kills == "leader" and isinstance(effect, fx.BecameLeader):
            self.after(self.rng.choice((1, 2, 5, 10, 25)), lambda: self.kill(node, self.victim))

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.cluster.timers.append((self.cluster.now_ms + delay_ms, action))

    def kill(self, node: Node, back: Node | None) -> None:
        """One process ends, most often with all of its log on disk; another one comes back."""
        if self.rng.random() < 0.8:
            self.cluster.flush(node)
        self.cluster.crash(node)
        self.victim = node
        if back is not None and not back.is_up:
            self.cluster.restart(back)

    def act(self) -> None:
        rng, cluster = self.rng, self.cluster
        node = rng.choice(list(cluster.nodes.values()))
        (kind,) = rng.choices(list(self.kind.weights), list(self.kind.weights.values()))
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
        elif kind == "resize":
            self.resize(node)
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
        if node.is_up:
            cluster.crash(node, rng.randrange(3))
            if kind == "bounce":
                cluster.restart(node)

    def append(self, leader: Node) -> None:
        self.values += 1
        self.cluster.append(leader, b"%d" % self.values)

    def resize(self, node: Node) -> None:
        """Request from the leader that the node becomes a voter, or no longer is one."""
        for leader in self.cluster.leaders:
            if node.node_id in leader.machine.voters.by_id:
                self.cluster.ask(leader.node_id, remove_request(node.node_id))
            else:
                self.cluster.ask(leader.node_id, add_request(node.node_id))

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
            if self.rng.random() < self.kind.rate:
                self.act()
            else:
                self.move()
            self.checker.check()

    def calm(self) -> None:
        """Everything heals: then a leader comes, a new record is committed, and all have it."""
        cluster = self.cluster
        self.is_storm = False
        cluster.draws_below = 1 << 30
        cluster.timers.clear()
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

    def run(self, moves: int = 400) -> Schedule:
        self.storm(moves)
        self.calm()
        return self


@pytest.mark.parametrize("storm", STORMS, ids=("writing", "voting", "deposing", "resizing"))
def test_nothing_committed_is_lost_in_any_schedule(storm: Storm) -> None:
    committed = 0
    for seed in range(SCHEDULES):
        try:
            committed += Schedule(seed, storm).run().checker.committed_end
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    assert committed > 3 * SCHEDULES, "the schedules commit too little to mean anything"


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
    """A follower ignores that its log diverges."""
    monkeypatch.setattr(leader_fetches, "find_misfit", _misfit_only_beyond_the_end)


def _misfit_only_beyond_the_end(log: Any, offset: int, last_epoch: int) -> Any:
    found = find_misfit(log, offset, last_epoch)
    return found if isinstance(found, SnapshotId) or offset > log.end_offset else None


def count_unflushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader counts what it has only written."""
    monkeypatch.setattr(Leader, "own_offset", property(lambda self: self.node.log.end_offset))


def fetch_unflushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower fetches more before its log is on disk."""
    monkeypatch.setattr(Follower, "_waits_for_disk", property(lambda self: False))


def vote_for_shorter_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of a candidate is not looked at."""
    monkeypatch.setattr(RaftNode, "is_up_to_date", lambda self, last_epoch, last_offset: True)


PLANTED = [
    (forget_votes, VOTING),
    (commit_earlier_epochs, DEPOSING),
    (keep_diverged_tails, WRITING),
    (count_unflushed, WRITING),
    (fetch_unflushed, WRITING),
    (vote_for_shorter_logs, WRITING),
]


@pytest.mark.parametrize(("plant", "storm"), PLANTED)
def test_a_planted_bug_is_found(plant: Any, storm: Storm, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(
        (AssertionError, QuorumError), match=r"two leaders|two values|lacks what is committed"
    ):
        for seed in range(2000):
            Schedule(seed, storm).run()
