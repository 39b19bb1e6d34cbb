"""A contest: both peers do the same work alternately, A B A B A B, and their medians are compared."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from bench.peers.fleet import Fleet, Peer
from bench.peers.usage import Usage, resident_bytes, usage

GB = 1e9


class Measure(NamedTuple):
    """The meaning of a figure: its unit, its direction, and the goal of Ottla."""

    unit: str
    less_is_better: bool = True
    goal: float | None = None  # of the advantage: 1 is level, 2 is twice as good
    aside: bool = False  # a secondary figure


Figures: TypeAlias = dict[str, tuple[float, Measure]]
"""The results of one round of one peer."""


class Shapes(Enum):
    """Which combinations of produce settings are measured."""

    FEW = "the batch sizes"
    EACH = "one dimension after the other"
    EVERY = "every combination"


class Effort(NamedTuple):
    """Sizes and number of rounds."""

    rounds: int
    produce_bytes: int
    consume_bytes: int
    latency_seconds: float
    requests: int
    idle_seconds: float
    partitions: tuple[int, ...]
    members: int
    commits: int
    transaction_seconds: float
    spark_rows: int
    shapes: Shapes


FULL = Effort(
    rounds=5,
    produce_bytes=250_000_000,
    consume_bytes=400_000_000,
    latency_seconds=5,
    requests=30_000,
    idle_seconds=6,
    partitions=(1_000, 10_000),
    members=100,
    commits=20_000,
    transaction_seconds=4,
    spark_rows=2_000_000,
    shapes=Shapes.EACH,
)
QUICK = FULL._replace(
    rounds=2,
    produce_bytes=100_000_000,
    consume_bytes=60_000_000,
    latency_seconds=1,
    requests=10_000,
    idle_seconds=2,
    partitions=(1_000,),
    members=30,
    commits=5_000,
    transaction_seconds=2,
    spark_rows=500_000,
    shapes=Shapes.FEW,
)
SMOKE = Effort(
    rounds=1,
    produce_bytes=2_000_000,
    consume_bytes=2_000_000,
    latency_seconds=0.3,
    requests=100,
    idle_seconds=0.1,
    partitions=(10,),
    members=3,
    commits=100,
    transaction_seconds=0.5,
    spark_rows=2_000,
    shapes=Shapes.EACH,
)

Play: TypeAlias = Callable[[Fleet, Effort], Figures]


class Scenario(NamedTuple):
    """`play` runs a round on servers that stay up, `alone` starts its own; exactly one is set."""

    name: str
    title: str
    play: Play | None = None
    alone: Callable[[Peer, Effort], Figures] | None = None
    brokers: int = 1
    settings: Mapping[str, str] = {}
    warm_ups: int = 2  # uncounted rounds of Kafka, for its JIT compiler; Ottla has one
    warm_up: Play | None = None  # what these rounds run, if not `play`
    rounds_max: int = 10  # fewer if rounds are long or stable


MEMORY = Measure("MB RSS", aside=True)


class Entry(NamedTuple):
    """One figure of both peers; `theirs` is empty where only Ottla was measured."""

    scenario: str
    figure: str
    measure: Measure
    ours: Sequence[float]
    theirs: Sequence[float]

    @property
    def advantage(self) -> float | None:
        """How many times better Ottla is, by medians."""
        if not self.theirs:
            return None
        return self._better(statistics.median(self.ours), statistics.median(self.theirs))

    @property
    def advantages(self) -> list[float]:
        """The advantage in each pair of consecutive rounds."""
        pairs = zip(self.ours, self.theirs, strict=False)
        return [ratio for pair in pairs if (ratio := self._better(*pair)) is not None]

    def _better(self, ours: float, theirs: float) -> float | None:
        good, bad = (theirs, ours) if self.measure.less_is_better else (ours, theirs)
        return good / bad if bad else None

    @property
    def verdict(self) -> str:
        if self.measure.goal is None or self.advantage is None:
            return ""
        return "ok" if self.advantage >= self.measure.goal else "BEHIND"

    def as_json(self) -> dict[str, Any]:
        return {
            "scenario": self.scenario,
            "figure": self.figure,
            "measure": self.measure._asdict(),
            "ottla": [float(f"{value:.6g}") for value in self.ours],
            "kafka": [float(f"{value:.6g}") for value in self.theirs],
            "advantage": self.advantage,
            "verdict": self.verdict,
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Entry:
        return cls(row["scenario"], row["figure"], Measure(**row["measure"]), row["ottla"], row["kafka"])


def contest(scenario: Scenario, peers: Sequence[Peer], effort: Effort) -> list[Entry]:
    """The first peer is Ottla."""
    rounds: list[list[Figures]] = [[] for _ in peers]
    with ExitStack() as stack:
        turns = [_turn(scenario, peer, effort, stack) for peer in peers]
        count = rounds_of(scenario, effort)
        for number in range(count):
            for seat, turn in enumerate(turns):
                _print_progress(f"\r{scenario.name}: round {number + 1} of {count}, {peers[seat].name}      ")
                rounds[seat].append(turn())
    _print_progress("\r" + " " * 70 + "\r")
    return list(_entries(scenario.name, rounds))


def rounds_of(scenario: Scenario, effort: Effort) -> int:
    return min(effort.rounds, scenario.rounds_max)


def _turn(scenario: Scenario, peer: Peer, effort: Effort, stack: ExitStack) -> Callable[[], Figures]:
    alone, play = scenario.alone, scenario.play
    if alone is not None:
        return lambda: alone(peer, effort)
    assert play is not None, f"{scenario.name} does nothing"
    _print_progress(f"\r{scenario.name}: starting and warming {peer.name}      ")
    fleet = stack.enter_context(peer.fleet(scenario.brokers, scenario.settings))
    for _ in range(scenario.warm_ups if peer.kafka else min(1, scenario.warm_ups)):
        (scenario.warm_up or play)(fleet, effort)

    def turn() -> Figures:
        found = play(fleet, effort)
        return found | {"memory after a round": (resident_bytes(fleet.pids) / 1e6, MEMORY)}

    return turn


def _entries(name: str, rounds: Sequence[Sequence[Figures]]) -> Iterator[Entry]:
    for figure, (_, measure) in rounds[0][0].items():
        columns = [[found[figure][0] for found in seat if figure in found] for seat in rounds]
        yield Entry(name, figure, measure, columns[0], columns[1] if len(columns) > 1 else ())


def _print_progress(text: str) -> None:
    if sys.stderr.isatty():
        print(text, end="", file=sys.stderr, flush=True)


class Stopwatch:
    """Time and server usage of one piece of work."""

    def __init__(self, fleet: Fleet) -> None:
        self._pids = fleet.pids
        self._before = usage(self._pids)
        self._began_s = time.perf_counter()

    def stop(self) -> tuple[float, Usage]:
        took_s = time.perf_counter() - self._began_s
        return took_s, usage(self._pids).since(self._before)
