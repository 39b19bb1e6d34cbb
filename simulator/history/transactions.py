"""The history of transactional producers: everything that the checkers of transactions use.

A transaction's fate is `committed` (its commit was acknowledged, or decided by an external resource),
`unknown` (a commit was sent without a definite response) or `aborted` (everything else: it was aborted or
rejected, or its producer ended without sending a commit).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from simulator.history.operations import PartitionName
from simulator.runtime.trace import Trace

COMMITTED = "committed"
ABORTED = "aborted"
UNKNOWN = "unknown"
DATA = "data"
COMMIT = "commit"
ABORT = "abort"

Pair = tuple[int, int]


class TxnEntry:
    """One transaction. `instance`: the producer that began it; `pair`: its producer id and epoch."""

    __slots__ = (
        "commit_sent",
        "decision",
        "end_acked_ns",
        "end_invoked_ns",
        "inputs",
        "instance",
        "name",
        "offsets",
        "outcome",
        "pair",
        "transactional_id",
        "values",
        "version",
    )

    def __init__(self, name: str, transactional_id: str, instance: str, pair: Pair, version: int) -> None:
        self.name = name
        self.transactional_id = transactional_id
        self.instance = instance
        self.pair = pair
        self.version = version
        self.values: dict[str, PartitionName] = {}
        self.inputs: list[str] = []  # input records of a worker
        self.offsets: dict[int, int] = {}  # offsets of the group in it, by input partition
        self.commit_sent = False
        self.outcome = ""  # as acknowledged
        self.decision = ""  # of the external resource: overrides the outcome
        self.end_invoked_ns = -1
        self.end_acked_ns = -1

    @property
    def fate(self) -> str:
        if self.decision:
            return self.decision
        if self.outcome:
            return self.outcome
        return UNKNOWN if self.commit_sent else ABORTED

    def __repr__(self) -> str:
        producer_id, epoch = self.pair
        return f"{self.name} (V{self.version} of {self.instance}, producer {producer_id} epoch {epoch})"


class Stable(NamedTuple):
    """A last stable offset that a reader received when it had read up to `position`."""

    client: str
    partition: PartitionName
    offset: int
    position: int
    leader_epoch: int


class Seen(NamedTuple):
    """A record read under read_committed."""

    client: str
    partition: PartitionName
    offset: int
    value: str


class LogEntry(NamedTuple):
    """A batch of the log: data or a marker."""

    kind: str
    offset: int
    pair: Pair
    values: tuple[str, ...]


class IssuedPair(NamedTuple):
    pair: Pair
    transactional_id: str
    instance: str


class TakeOver(NamedTuple):
    """An instance took over a transactional id: earlier epochs must have no effect from then on."""

    transactional_id: str
    instance: str
    pair: Pair
    at_ns: int
    keeps: bool  # keeps a prepared transaction, whose writes leaders may accept until it is ended


class Acknowledged(NamedTuple):
    """A successful request of an instance."""

    transactional_id: str
    instance: str
    pair: Pair
    invoked_ns: int
    what: str
    is_end: bool


class LedgerHistory(Protocol):
    """What a ledger uses of the history of the run."""

    ledger: TxnLedger | None


class LedgerWorld(Protocol):
    """What a ledger uses of the world."""

    trace: Trace

    @property
    def history(self) -> LedgerHistory: ...


class TxnLedger:
    def __init__(self, world: LedgerWorld, topic: str, partitions: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self.entries: dict[str, TxnEntry] = {}
        self.by_value: dict[str, TxnEntry] = {}
        self.seen: list[Seen] = []
        self.seen_open: list[Seen] = []  # under read_uncommitted
        self.stable: list[Stable] = []
        self.issued: list[IssuedPair] = []
        self.take_overs: list[TakeOver] = []
        self.acknowledged: list[Acknowledged] = []
        self.prepared_lost: list[str] = []
        self.hanging: list[str] = []
        # The final records under read_committed, by reader.
        self.final: dict[str, dict[PartitionName, list[tuple[int, str]]]] = {}
        self.logs: dict[PartitionName, list[LogEntry]] = {}
        self.input_topic = ""
        self.is_ending = False  # all faults are healed: workers do not pause any more
        self.final_offsets: dict[int, int] = {}  # of the workers' group, by input partition
        self._world = world
        self._number = 0
        self._instances: dict[str, int] = {}
        world.history.ledger = self

    @property
    def now_ns(self) -> int:
        return self._world.trace.now_ns()

    def trace(self, who: str, text: str) -> None:
        self._world.trace("txn", who, text)

    def next_instance(self, transactional_id: str) -> int:
        number = self._instances.get(transactional_id, 0) + 1
        self._instances[transactional_id] = number
        return number

    # -- producers

    def begin(self, transactional_id: str, instance: str, pair: Pair, version: int) -> TxnEntry:
        self._number += 1
        entry = TxnEntry(f"t{self._number}", transactional_id, instance, pair, version)
        self.entries[entry.name] = entry
        self.trace(instance, f"begins {entry}")
        return entry

    def attempt(self, entry: TxnEntry, instance: str) -> TxnEntry:
        """Start ending a prepared transaction: the decision counts, not the outcome of the attempt."""
        return TxnEntry(entry.name, entry.transactional_id, instance, entry.pair, entry.version)

    def write(self, entry: TxnEntry, value: str, partition: PartitionName) -> None:
        assert value not in self.by_value
        entry.values[value] = partition
        self.by_value[value] = entry

    def end_sent(self, entry: TxnEntry, *, commit: bool) -> None:
        entry.commit_sent = entry.commit_sent or commit
        if entry.end_invoked_ns < 0:
            entry.end_invoked_ns = self.now_ns

    def ended(self, entry: TxnEntry, outcome: str, why: object = "") -> None:
        assert not entry.outcome, f"{entry} has ended already"
        entry.outcome = outcome
        entry.end_acked_ns = self.now_ns
        self.trace(entry.instance, f"{entry.name} is {outcome} {why}")

    # -- responses of brokers

    def issue(self, pair: Pair, transactional_id: str, instance: str) -> None:
        self.issued.append(IssuedPair(pair, transactional_id, instance))
        self.trace(instance, f"has producer {pair[0]} epoch {pair[1]}")

    def take_over(self, transactional_id: str, instance: str, pair: Pair, *, keeps: bool) -> None:
        self.take_overs.append(TakeOver(transactional_id, instance, pair, self.now_ns, keeps))

    def acknowledge(
        self,
        transactional_id: str,
        instance: str,
        pair: Pair,
        invoked_ns: int,
        what: str,
        *,
        is_end: bool = False,
    ) -> None:
        done = Acknowledged(transactional_id, instance, pair, invoked_ns, what, is_end)
        self.acknowledged.append(done)

    def read(
        self, client: str, partition: PartitionName, offset: int, value: str, *, committed: bool
    ) -> None:
        (self.seen if committed else self.seen_open).append(Seen(client, partition, offset, value))
        self.trace(client, f"reads {partition}@{offset} {value}")

    def saw_stable(
        self, client: str, partition: PartitionName, offset: int, position: int, leader_epoch: int
    ) -> None:
        if offset >= 0:
            self.stable.append(Stable(client, partition, offset, position, leader_epoch))

    @property
    def reader(self) -> str:
        """The last reader of the final state."""
        return list(self.final)[-1] if self.final else ""

    def committed_count(self) -> int:
        """Number of records in transactions with an acknowledged commit."""
        return sum(len(entry.values) for entry in self.entries.values() if entry.fate == COMMITTED)
