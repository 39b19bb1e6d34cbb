"""The disk of one node: outlives its processes, and treats each of them as badly as it is told to.

A process that was killed leaves the files as it wrote them; a power cut leaves what was synced and a drawn
part of the rest. Either way the next process gets files of its own, so that nothing of the old one reaches
them.
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
    """Files whose times of change come from the node's clock."""

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
    """`files` is what the process of today uses. `sync_ms`: how long a job on the disk takes, from and to."""

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
        """The process is gone, the machine is not: everything written is there."""
        heir = SimulatedFiles(self._clock)
        self.files.hand_over_to(heir)
        self.files = heir

    def power_cut(self, *, flip_chance: float = 0.0) -> None:
        """What was not synced is there in part or not at all, and perhaps not as it was written."""
        heir = SimulatedFiles(self._clock)
        self.files.hand_over_to(heir)
        paths = [path for path in heir.nodes if path.endswith(".log")]
        synced = heir.synced_bytes()
        heir.crash(self._rng)
        for path in paths:
            node = heir.nodes.get(path)  # perhaps another one than before: the name was not synced
            nbytes = 0 if node is None else synced[node]
            if node is not None and nbytes < len(node.data) and self._rng.random() < flip_chance:
                heir.flip_bit(path, self._rng.randrange(nbytes, len(node.data)), self._rng.randrange(8))
        self.files = heir

    # -- faults

    def slow(self, sync_ms: tuple[float, float] = SLOW_SYNC_MS) -> None:
        self.sync_ms = sync_ms

    def fill(self, room_bytes: int = 0) -> None:
        """Only so much still fits."""
        self.files.room_bytes = room_bytes

    def fail(self, path: str = "/") -> None:
        self.files.fail_under(path)

    def flip_bits(self, suffix: str, *, under: str = "", count: int = 1) -> list[str]:
        """Change stored bits in files whose paths contain and end so; says which."""
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
        """Room, speed and working syncs again; flipped bits stay flipped."""
        self.sync_ms = SYNC_MS
        self.files.heal()
