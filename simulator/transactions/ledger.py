"""What transactional producers did and were told: everything the checkers of transactions judge by.

A transaction's fate is `committed` (its end was acknowledged, or an outside resource has decided it),
`unknown` (a commit was asked for and nobody knows what became of it) or `aborted` (everything else: it was
aborted, was refused, or its producer is gone and never asked for a commit).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simulator.history import PartitionName

if TYPE_CHECKING:
    from simulator.world import World

COMMITTED = "committed"
ABORTED = "aborted"
UNKNOWN = "unknown"
DATA = "data"
COMMIT = "commit"
ABORT = "abort"

Pair = tuple[int, int]


class TxnEntry:
    """One transaction. `instance` is the producer that began it, with the pair that it had."""

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
        self.inputs: list[str] = []  # what a worker has read for it
        self.offsets: dict[int, int] = {}  # what it commits of the group, by partition of the input
        self.commit_sent = False
        self.outcome = ""  # as it was told
        self.decision = ""  # of an outside resource that takes part: it counts, whatever was told
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
    """How far a reader was told that everything is decided, when it had read up to `position`."""

    client: str
    partition: PartitionName
    offset: int
    position: int
    leader_epoch: int


class Seen(NamedTuple):
    """A record that somebody read under read_committed."""

    client: str
    partition: PartitionName
    offset: int
    value: str


class LogEntry(NamedTuple):
    """A batch as it lies in the log: data, or the marker of an end."""

    kind: str
    offset: int
    pair: Pair
    values: tuple[str, ...]


class Handed(NamedTuple):
    pair: Pair
    transactional_id: str
    instance: str


class TakeOver(NamedTuple):
    """From then on the instance is the producer of the id: earlier epochs must be without effect."""

    transactional_id: str
    instance: str
    pair: Pair
    at_ns: int
    keeps: bool  # what the one before has written: leaders may let it write until it is ended


class Acknowledged(NamedTuple):
    """Something that an instance asked for and was granted."""

    transactional_id: str
    instance: str
    pair: Pair
    invoked_ns: int
    what: str
    is_end: bool


class TxnLedger:
    def __init__(self, world: World, topic: str, partitions: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self.entries: dict[str, TxnEntry] = {}
        self.by_value: dict[str, TxnEntry] = {}
        self.seen: list[Seen] = []
        self.seen_open: list[Seen] = []  # under read_uncommitted
        self.stable: list[Stable] = []
        self.handed: list[Handed] = []
        self.take_overs: list[TakeOver] = []
        self.acknowledged: list[Acknowledged] = []
        self.prepared_lost: list[str] = []
        self.hanging: list[str] = []
        # What is there in the end under read_committed, as each of several readers found it.
        self.final: dict[str, dict[PartitionName, list[tuple[int, str]]]] = {}
        self.logs: dict[PartitionName, list[LogEntry]] = {}
        self.input_topic = ""
        self.is_ending = False  # the trouble is over: whoever works makes haste
        self.final_offsets: dict[int, int] = {}  # of the workers' group, by partition of the input
        self._world = world
        self._number = 0
        self._instances: dict[str, int] = {}
        world.history.ledger = self

    @property
    def now_ns(self) -> int:
        return self._world.loop.now_ns

    def trace(self, who: str, text: str) -> None:
        self._world.trace("txn", who, text)

    def next_instance(self, transactional_id: str) -> int:
        number = self._instances.get(transactional_id, 0) + 1
        self._instances[transactional_id] = number
        return number

    # -- what producers do

    def begin(self, transactional_id: str, instance: str, pair: Pair, version: int) -> TxnEntry:
        self._number += 1
        entry = TxnEntry(f"t{self._number}", transactional_id, instance, pair, version)
        self.entries[entry.name] = entry
        self.trace(instance, f"begins {entry}")
        return entry

    def attempt(self, entry: TxnEntry, instance: str) -> TxnEntry:
        """An end of a prepared transaction, by whichever instance: the decision counts, not how it went."""
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

    # -- what brokers tell

    def hand(self, pair: Pair, transactional_id: str, instance: str) -> None:
        self.handed.append(Handed(pair, transactional_id, instance))
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
        """The last of those who read everything."""
        return list(self.final)[-1] if self.final else ""

    def committed_count(self) -> int:
        """Records of transactions whose commit was acknowledged."""
        return sum(len(entry.values) for entry in self.entries.values() if entry.fate == COMMITTED)
