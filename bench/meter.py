"""CPU time and memory of a process, as reported by the kernel."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

CPUCLOCK_SCHED = 2


class CpuTime(NamedTuple):
    total_s: float
    system_s: float


class HasPid(Protocol):
    @property
    def pid(self) -> int: ...


def cpu_time(pid: int) -> CpuTime:
    """Return the CPU time of all threads; the user/system split has the resolution of kernel ticks."""
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    with open(f"/proc/{pid}/stat", "rb") as stat:
        fields = stat.read().rpartition(b")")[2].split()
    user_s, system_s = int(fields[11]) * tick_s, int(fields[12]) * tick_s
    try:
        # The clock that clock_getcpuclockid(3) returns: the same sum in nanoseconds.
        total_s = time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)
    except OSError:
        total_s = user_s + system_s
    return CpuTime(total_s, system_s)


def ended_children_s(pid: int) -> float:
    """Return the CPU time of ended descendants of a process, with the resolution of kernel ticks."""
    with open(f"/proc/{pid}/stat", "rb") as stat:
        fields = stat.read().rpartition(b")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def rss_bytes(process: HasPid) -> int:
    with open(f"/proc/{process.pid}/statm", "rb") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def ready_page_cache(directory: str, nbytes: int, write_bytes: int) -> None:
    """Fill and drop page cache, so that the memory is available to the measurement that follows.

    A virtual machine returns free memory to its host after some seconds. Getting it back costs the first
    writer up to two seconds of CPU per GB, which is not a cost of the broker.
    """
    data = b"\1" * write_bytes
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        for _ in range(nbytes // write_bytes):
            file.write(data)


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this thread, and the processes that it starts, on one core.

    Two processes that alternate lose nothing by that, and the figure does not include the cost of waking an
    idle core, which on some virtual machines is twice the cost of the work, depending on other load.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class CpuMeter:
    """CPU time that a process uses between `begin` and `end`."""

    def __init__(self, process: HasPid) -> None:
        self._process = process
        self.total_s: list[float] = []
        self.system_s: list[float] = []
        self.begin()

    def begin(self) -> None:
        self._before = cpu_time(self._process.pid)

    def end(self) -> float:
        after = cpu_time(self._process.pid)
        self.total_s.append(after.total_s - self._before.total_s)
        self.system_s.append(after.system_s - self._before.system_s)
        return self.total_s[-1]

    @property
    def system_note(self) -> str:
        total = sum(self.total_s)
        return f"{100 * sum(self.system_s) / total:.0f}% in the kernel" if total else ""
