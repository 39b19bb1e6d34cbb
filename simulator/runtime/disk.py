"""The disk of one node. It outlives the node's processes.

A killed process leaves all written data; a power cut leaves synced data and a random part of the rest. In
both cases the next process gets new file objects, so that the old process cannot reach them.

Directories can be slow or hang: each operation below them blocks the thread that runs it for some time. The
operation itself takes effect at once; a crash meanwhile finds it done.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from simulator.runtime.files import ALL, SimulatedFiles, Slowness
from simulator.runtime.loop import Process

SYNC_MS = (0.05, 3.0)
SLOW_SYNC_MS = (20.0, 400.0)
HICCUP_MS = 50.0
HICCUP_CHANCE = 0.02


class SimulatedDisk:
    """`files`: the files of the current process. `sync_ms`: range of the duration of a disk job."""

    def __init__(
        self, rng: random.Random, clock: Callable[[], int], now_ns: Callable[[], int] = lambda: 0
    ) -> None:
        """`clock`: the node's wall clock in ms. `now_ns`: the true time."""
        self.sync_ms = SYNC_MS
        self.slow_directories: dict[str, Slowness] = {}
        self.failed: list[str] = []  # directories whose operations fail
        self._rng = rng
        self._clock = clock
        self._now_ns = now_ns
        self._process: Process | None = None
        self.files = self._new_files()

    def _new_files(self) -> SimulatedFiles:
        files = SimulatedFiles(self._clock, self._operation_cost_ns)
        for path in self.failed:
            files.fail_under(path)
        return files

    def process_started(self, process: Process) -> None:
        """Its operations on slow directories block it; those of the harness block nothing."""
        self._process = process
        self.files.process = process

    def _operation_cost_ns(self, path: str, kind: str) -> int:
        """How long an operation blocks its thread."""
        cost_ms = 0.0
        for directory, slowness in self.slow_directories.items():
            if path.startswith(directory):
                if slowness.hangs_until_ns and kind in slowness.hanging:
                    cost_ms += max(0, slowness.hangs_until_ns - self._now_ns()) / 1_000_000
                elif kind in slowness.range_ms:
                    cost_ms += self._rng.uniform(*slowness.range_ms[kind])
        return round(cost_ms * 1_000_000)

    def job_delay_ns(self) -> int:
        low_ms, high_ms = self.sync_ms
        delay_ms = self._rng.uniform(low_ms, high_ms)
        if self._rng.random() < HICCUP_CHANCE:
            delay_ms += self._rng.uniform(0, HICCUP_MS)
        return round(delay_ms * 1_000_000)

    def process_ended(self) -> None:
        """The process ended; all written data stays."""
        successor = self._new_files()
        self.files.hand_over_to(successor)
        self.files = successor

    def power_cut(self, *, flip_chance: float = 0.0) -> None:
        """Lose unsynced data in part or completely, and perhaps flip bits in the rest of it."""
        successor = self._new_files()
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

    def slow_directory(self, path: str, range_ms: Mapping[str, tuple[float, float]]) -> None:
        """Operations below `path` take a time from the range of their kind, see files.py."""
        self.slow_directories[path] = Slowness(range_ms=range_ms)

    def hang(self, path: str, duration_s: float, kinds: tuple[str, ...] = ALL) -> None:
        """Operations below `path` block until that time is over."""
        until_ns = self._now_ns() + round(duration_s * 1_000_000_000)
        self.slow_directories[path] = Slowness(hangs_until_ns=until_ns, hanging=kinds)

    def fill(self, room_bytes: int = 0) -> None:
        """Leave `room_bytes` of free space."""
        self.files.room_bytes = room_bytes

    def fail(self, path: str = "/") -> None:
        """All operations below `path` fail with EIO, also those of later processes."""
        self.failed.append(path)
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
        self.slow_directories.clear()
        self.failed.clear()
        self.files.heal()
