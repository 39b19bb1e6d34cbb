"""The history of a run: requests of clients, their responses, and reads. Checkers use nothing else.

An operation ends with `ok` (it took effect), `fail` (it did not) or `info` (unknown).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from simulator.runtime.trace import Trace

if TYPE_CHECKING:
    from simulator.groups.history import GroupHistory
    from simulator.transactions.ledger import TxnLedger

PRODUCE = "produce"  # idempotent, acks=all: must not be lost
PRODUCE_UNRELIABLE = "produce-unreliable"  # acks=1: may be lost until it is read

OPEN = "open"
OK = "ok"
FAIL = "fail"
INFO = "info"


class PartitionName(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Operation:
    """One operation of a client, retries included: `value` is the argument, `result` the response."""

    __slots__ = (
        "_trace",
        "client",
        "completed_ns",
        "invoked_ns",
        "kind",
        "outcome",
        "result",
        "target",
        "value",
    )

    def __init__(
        self, trace: Trace, client: str, kind: str, target: PartitionName | str, value: tuple[str, ...]
    ) -> None:
        self.client = client
        self.kind = kind
        self.target = target
        self.value = value
        self.outcome = OPEN
        self.result: Any = None
        self.invoked_ns = trace.now_ns()
        self.completed_ns = -1
        self._trace = trace

    def ok(self, result: Any = None) -> None:
        self._end(OK, result)

    def fail(self, result: Any = None) -> None:
        self._end(FAIL, result)

    def info(self, result: Any = None) -> None:
        self._end(INFO, result)

    def _end(self, outcome: str, result: Any) -> None:
        assert self.outcome == OPEN, f"{self} has already ended"
        self.outcome = outcome
        self.result = result
        self.completed_ns = self._trace.now_ns()
        self._trace(outcome, self.client, f"{self.kind} {self.target} {','.join(self.value)} {result}")

    def __repr__(self) -> str:
        return f"{self.client} {self.kind} {self.target} {','.join(self.value)}: {self.outcome} {self.result}"


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


class LeaderSeen(NamedTuple):
    partition: PartitionName
    epoch: int
    leader: int


class History:
    def __init__(self, trace: Trace) -> None:
        self.operations: list[Operation] = []
        self.reads: list[Read] = []
        self.watermarks: list[Watermark] = []
        self.leaders: dict[LeaderSeen, int] = {}  # time of the first observation
        self.groups: dict[str, GroupHistory] = {}
        self.ledger: TxnLedger | None = None  # history of transactions
        self.raft_leaders: dict[tuple[int, int], None] = {}  # (epoch, node id)
        # (offset, epoch) of the last committed metadata record as seen by any node.
        self.committed_metadata: dict[tuple[int, int], None] = {}
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
