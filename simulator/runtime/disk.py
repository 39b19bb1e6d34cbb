"""The disk of one node. It outlives the node's processes.

A killed process leaves all written data; a power cut leaves synced data and a random part of the rest. In
both cases the next process gets new file objects, so that the old process cannot reach them.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from ottla.testing.files import FaultyFiles

SYNC_MS = (0.05, 3.0)
SLOW_SYNC_MS = (20.0, 400.0)
HICCUP_MS = 50.0
HICCUP_CHANCE = 0.02


class SimulatedFiles(FaultyFiles):
    """Files with modification times from the node's clock."""

    __slots__ = ("_clock",)

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        super().__init__()

    @property
    def now_ms(self) -> int:
        return self._clock()

    @now_ms.setter
    def now_ms(self, value: int) -> None:
        """Set by the base class only."""


class SimulatedDisk:
    """`files`: the files of the current process. `sync_ms`: range of the duration of a disk job."""

    def __init__(self, rng: random.Random, clock: Callable[[], int]) -> None:
        self.files = SimulatedFiles(clock)
        self.sync_ms = SYNC_MS
        self._rng = rng
        self._clock = clock

    def job_delay_ns(self) -> int:
        low_ms, high_ms = self.sync_ms
        delay_ms = self._rng.uniform(low_ms, high_ms)
        if self._rng.random() < HICCUP_CHANCE:
            delay_ms += self._rng.uniform(0, HICCUP_MS)
        return round(delay_ms * 1_000_000)

    def process_ended(self) -> None:
        """The process ended; all written data stays."""
        successor = SimulatedFiles(self._clock)
        self.files.hand_over_to(successor)
        self.files = successor

    def power_cut(self, *, flip_chance: float = 0.0) -> None:
        """Lose unsynced data in part or completely, and perhaps flip bits in the rest of it."""
        successor = SimulatedFiles(self._clock)
        self.files.hand_over_to(successor)
        paths = [path for path in successor.nodes if path.endswith(".log")]
        synced = successor.synced_bytes()
        successor.crash(self._rng)
        for path in paths:
            node = successor.nodes.get(path)  # may be another file: its name was not synced
            nbytes = 0 if node is None else synced[node]
            if node is not None and nbytes < len(node.data) and self._rng.random() < flip_chance:
                successor.flip_bit(path, self._rng.randrange(nbytes, len(node.data)), self._rng.randrange(8))
        self.files = successor

    # -- faults

    def slow(self, sync_ms: tuple[float, float] = SLOW_SYNC_MS) -> None:
        self.sync_ms = sync_ms

    def fill(self, room_bytes: int = 0) -> None:
        """Leave `room_bytes` of free space."""
        self.files.room_bytes = room_bytes

    def fail(self, path: str = "/") -> None:
        self.files.fail_under(path)

    def flip_bits(self, suffix: str, *, under: str = "", count: int = 1) -> list[str]:
        """Flip stored bits in files whose path contains `under` and ends with `suffix`; return which."""
        flipped = []
        for _ in range(count):
            paths = [
                path
                for path, node in self.files.nodes.items()
                if under in path and path.endswith(suffix) and node.data
            ]
            if paths:
                path = self._rng.choice(paths)
                position = self._rng.randrange(len(self.files.nodes[path].data))
                self.files.flip_bit(path, position, self._rng.randrange(8))
                flipped.append(f"{path}@{position}")
        return flipped

    def heal(self) -> None:
        """Restore space, speed and syncs; flipped bits stay."""
        self.sync_ms = SYNC_MS
        self.files.heal()
