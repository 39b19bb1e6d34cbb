"""What the cluster looked like from outside of clients: controllers, leaders, fencings, deaths, tasks.

`stress/watch.py` fills it in, `stress/checkers.py` judges it.
"""

from __future__ import annotations

from typing import NamedTuple

from simulator.history.operations import PartitionName


class Gap(NamedTuple):
    """A time without something that should always be there."""

    what: str
    start_ns: int
    end_ns: int

    @property
    def duration_s(self) -> float:
        return (self.end_ns - self.start_ns) / 1_000_000_000


class Fencing(NamedTuple):
    broker_id: int
    at_ns: int
    excuse: str  # empty if nothing was wrong with the broker


class HealthHistory:
    def __init__(self) -> None:
        self.gaps: list[Gap] = []  # without an active controller, or a leader of a partition
        self.fencings: list[Fencing] = []
        self.elections: list[tuple[int, int, int]] = []  # time, epoch and leader of quorum elections
        self.deaths: list[str] = []  # processes that ended on their own account
        self.missing_tasks: list[str] = []
        self.waiting: list[str] = []  # containers with waiters of requests that nobody waits for
        self.open_handles: list[str] = []
        self.starts_beyond: list[str] = []  # log starts above the high watermark
        self.log_starts: dict[PartitionName, int] = {}
        # Time until which a fault excuses what happens to a node, by node id.
        self.disturbed_until_ns: dict[int, int] = {}
