"""Resource usage of several processes, as reported by the kernel."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from bench.meter import cpu_time


class Usage(NamedTuple):
    cpu_s: float
    switches: int  # context switches of all threads
    written_bytes: int  # pages written to disk

    def since(self, before: Usage) -> Usage:
        return Usage(
            self.cpu_s - before.cpu_s,
            self.switches - before.switches,
            self.written_bytes - before.written_bytes,
        )


def usage(pids: Sequence[int]) -> Usage:
    return Usage(
        sum([cpu_time(pid).total_s for pid in pids]),
        sum([_switches(pid) for pid in pids]),
        sum([_written(pid) for pid in pids]),
    )


def memory_bytes(pids: Sequence[int]) -> int:
    """Return resident memory without mapped files, such as Kafka's index files and jars."""
    return sum([_status(pid, "RssAnon") + _status(pid, "RssShmem") for pid in pids]) * 1024


def resident_bytes(pids: Sequence[int]) -> int:
    return sum([_status(pid, "VmRSS") for pid in pids]) * 1024


def _switches(pid: int) -> int:
    count = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            path = f"{pid}/task/{thread}"
            count += _status(path, "voluntary_ctxt_switches") + _status(path, "nonvoluntary_ctxt_switches")
        except FileNotFoundError:
            pass  # the thread has ended, and its count with it
    return count


def _written(pid: int) -> int:
    with open(f"/proc/{pid}/io", encoding="ascii") as io:
        for line in io:
            if line.startswith("write_bytes:"):  # wchar would include sockets
                return int(line.split()[1])
    return 0


def _status(path: object, field: str) -> int:
    with open(f"/proc/{path}/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith(f"{field}:"):
                return int(line.split()[1])
    return 0
