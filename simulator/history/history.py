"""The history of a run: requests of clients, their responses, and reads. Checkers use nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from simulator.history.groups import GroupHistory
from simulator.history.health import HealthHistory
from simulator.history.operations import PRODUCE, PRODUCE_UNRELIABLE, LeaderSeen, Operation, PartitionName
from simulator.history.transactions import TxnLedger
from simulator.runtime.trace import Trace


class Read(NamedTuple):
    """One record read by one consumer."""

    client: str
    partition: PartitionName
    offset: int
    value: str


class Watermark(NamedTuple):
    """A high watermark that a consumer received when it had read up to `position`."""

    client: str
    partition: PartitionName
    offset: int
    position: int


class History:
    def __init__(self, trace: Trace) -> None:
        self.operations: list[Operation] = []
        self.reads: list[Read] = []
        self.watermarks: list[Watermark] = []
        self.lost_positions: list[tuple[str, PartitionName, int]] = []
        self.leaders: dict[LeaderSeen, int] = {}  # time of the first observation
        self.groups: dict[str, GroupHistory] = {}
        self.ledger: TxnLedger | None = None  # history of transactions
        self.raft_leaders: dict[tuple[int, int], None] = {}  # (epoch, node id)
        # (offset, epoch) of the last committed metadata record as seen by any node.
        self.committed_metadata: dict[tuple[int, int], None] = {}
        self.health = HealthHistory()
        self.producer_ids: list[tuple[int, str]] = []  # (id, client)
        self.unclean_elections: list[str] = []
        self.offset_commits = 0  # acknowledged, of all groups
        self.surprises: list[str] = []  # responses that no client should receive
        self.final: dict[
            PartitionName, list[tuple[int, str]]
        ] = {}  # (offset, value) of every record at the end
        self.final_topics: dict[str, bytes] = {}
        self.final_facts: dict[str, str] = {}  # see admins.py
        self.loose: dict[str, list[str]] = {}  # values of requests with an unknown outcome
        self.final_metadata: dict[int, dict[int, tuple[int, int]]] = {}  # offset -> epoch, CRC; by node id
        # Final records of each replica below its high watermark, by node id.
        self.replicas: dict[PartitionName, dict[int, list[tuple[int, str]]]] = {}
        self._trace = trace

    def invoke(
        self, client: str, kind: str, target: PartitionName | str, value: tuple[str, ...] = ()
    ) -> Operation:
        self._trace("invoke", client, f"{kind} {target} {','.join(value)}")
        operation = Operation(self._trace, client, kind, target, value)
        self.operations.append(operation)
        return operation

    def read(self, client: str, partition: PartitionName, offset: int, value: str) -> None:
        self.reads.append(Read(client, partition, offset, value))
        self._trace("read", client, f"{partition}@{offset} {value}")

    def saw_watermark(self, client: str, partition: PartitionName, offset: int, position: int) -> None:
        if offset >= 0:
            self.watermarks.append(Watermark(client, partition, offset, position))

    def lost_position(self, client: str, partition: PartitionName, position: int) -> None:
        """The log ends before the position up to which a consumer has read."""
        self.lost_positions.append((client, partition, position))
        self._trace("lost", client, f"{partition}@{position} is out of range")

    def saw_leader(self, partition: PartitionName, epoch: int, leader: int) -> None:
        self.leaders.setdefault(LeaderSeen(partition, epoch, leader), self._trace.now_ns())

    def surprise(self, client: str, text: str) -> None:
        self.surprises.append(f"{client}: {text}")
        self._trace("surprise", client, text)

    def of_kind(self, kind: str, outcome: str | None = None) -> list[Operation]:
        return [
            operation
            for operation in self.operations
            if operation.kind == kind and outcome in (None, operation.outcome)
        ]

    def written(self) -> Iterator[Operation]:
        """Yield all produce operations."""
        for operation in self.operations:
            if operation.kind in (PRODUCE, PRODUCE_UNRELIABLE):
                yield operation
