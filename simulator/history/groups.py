"""The history of a consumer group: who owned which partition and when, what was processed and committed.

A member's claim to a partition begins when it is assigned and ends when it is released. A claim is valid only
as long as the coordinator must respect it: for a session timeout after the last request with a successful
response, and for the rebalance timeout after the last response that requested no rebalance. Responses of a
coordinator that has been replaced do not count.
"""

from __future__ import annotations

from typing import Protocol

from ottla.protocol.hashing import java_hash_partition
from simulator.history.operations import FAIL, INFO, OK, OPEN, LeaderSeen, PartitionName
from simulator.runtime.trace import Trace

GROUP_TOPIC = "__consumer_offsets"
NOTHING_COMMITTED = -1


class Claim:
    """The claim of one member to one partition. `released_ns` is -1 until it is released."""

    __slots__ = ("from_ns", "member", "partition", "released_ns", "valid_ns")

    def __init__(self, member: str, partition: int, from_ns: int, valid_ns: int) -> None:
        self.member = member
        self.partition = partition
        self.from_ns = from_ns
        self.valid_ns = valid_ns
        self.released_ns = -1

    @property
    def until_ns(self) -> int:
        return self.valid_ns if self.released_ns < 0 else min(self.valid_ns, self.released_ns)


class Commit:
    """One offset of one OffsetCommit; `fetched_ns`: when the member fetched its start offset."""

    __slots__ = ("completed_ns", "fetched_ns", "invoked_ns", "member", "offset", "outcome", "partition")

    def __init__(self, member: str, partition: int, offset: int, fetched_ns: int, invoked_ns: int) -> None:
        self.member = member
        self.partition = partition
        self.offset = offset
        self.fetched_ns = fetched_ns
        self.invoked_ns = invoked_ns
        self.completed_ns = -1
        self.outcome = OPEN


class Fetched:
    """A committed offset that a coordinator returned to a member that starts there."""

    __slots__ = ("completed_ns", "invoked_ns", "member", "node_id", "offset", "partition")

    def __init__(
        self, member: str, partition: int, offset: int, node_id: int, invoked_ns: int, completed_ns: int
    ) -> None:
        self.member = member
        self.partition = partition
        self.offset = offset
        self.node_id = node_id
        self.invoked_ns = invoked_ns
        self.completed_ns = completed_ns


class RecordingHistory(Protocol):
    """What a group history uses of the history of the run."""

    groups: dict[str, GroupHistory]
    leaders: dict[LeaderSeen, int]
    offset_commits: int

    def read(self, client: str, partition: PartitionName, offset: int, value: str) -> None: ...


class RecordingWorld(Protocol):
    """What a group history uses of the world."""

    trace: Trace

    @property
    def history(self) -> RecordingHistory: ...


class GroupHistory:
    def __init__(
        self, world: RecordingWorld, group_id: str, topic: str, partitions: int, shards: int
    ) -> None:
        self.group_id = group_id
        self.topic = topic
        self.partitions = partitions
        self.coordinated_by = PartitionName(GROUP_TOPIC, java_hash_partition(group_id, shards))
        self.claims: list[Claim] = []
        self.commits: list[Commit] = []
        self.fetched: list[Fetched] = []
        # When each offset was first processed, by partition.
        self.processed: dict[int, dict[int, int]] = {index: {} for index in range(partitions)}
        self.extra_rebalances: list[str] = []  # rebalances that should not have happened
        self._world = world
        world.history.groups[group_id] = self

    @property
    def now_ns(self) -> int:
        return self._world.trace.now_ns()

    def name_of(self, index: int) -> PartitionName:
        return PartitionName(self.topic, index)

    def trace(self, member: str, text: str) -> None:
        self._world.trace("group", member, f"{self.group_id}: {text}")

    def claim(self, member: str, index: int, valid_ns: int) -> Claim:
        claim = Claim(member, index, self.now_ns, valid_ns)
        self.claims.append(claim)
        self.trace(member, f"has {index}")
        return claim

    def release(self, claim: Claim, why: str) -> None:
        claim.released_ns = self.now_ns
        self.trace(claim.member, f"releases {claim.partition}: {why}")

    def process(self, member: str, index: int, offset: int, value: str) -> None:
        self.processed[index].setdefault(offset, self.now_ns)
        self._world.history.read(member, self.name_of(index), offset, value)

    def commit(self, member: str, index: int, offset: int, fetched_ns: int) -> Commit:
        commit = Commit(member, index, offset, fetched_ns, self.now_ns)
        self.commits.append(commit)
        return commit

    def committed(self, commit: Commit, outcome: str, answer: object = "") -> None:
        assert outcome in (OK, FAIL, INFO) and commit.outcome == OPEN
        commit.outcome = outcome
        commit.completed_ns = self.now_ns
        if outcome == OK:
            self._world.history.offset_commits += 1
        self.trace(commit.member, f"commit {commit.partition}@{commit.offset}: {outcome} {answer}")

    def fetch(self, member: str, index: int, offset: int, node_id: int, invoked_ns: int) -> None:
        self.fetched.append(Fetched(member, index, offset, node_id, invoked_ns, self.now_ns))
        self.trace(member, f"starts {index}@{offset} by node{node_id}")

    def is_coordinator(self, node_id: int, at_ns: int) -> bool:
        """Return whether no other node was seen as coordinator by then."""
        newest = (-1, node_id)
        for (partition, epoch, leader), seen_ns in self._world.history.leaders.items():
            if partition == self.coordinated_by and seen_ns <= at_ns:
                newest = max(newest, (epoch, leader))
        return newest[1] == node_id
