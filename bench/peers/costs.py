"""The cost of work for a server, as figures with the same names in all scenarios."""

from __future__ import annotations

from bench.peers.contest import GB, Figures, Measure
from bench.peers.usage import Usage

MB = 1e6


def moved(name: str, nbytes: int, took_s: float, used: Usage, goal: float | None = None) -> Figures:
    """Cost per byte; the goal applies to the CPU time."""
    return {
        f"{name}: CPU": (used.cpu_s / (nbytes / GB), Measure("server CPU s per GB", goal=goal)),
        f"{name}: rate": (nbytes / MB / took_s, Measure("MB/s", less_is_better=False)),
        f"{name}: switches": (used.switches / (nbytes / MB), Measure("context switches per MB", aside=True)),
        f"{name}: written": (used.written_bytes / nbytes, Measure("bytes written per byte", aside=True)),
    }


def read(name: str, nbytes: int, took_s: float, used: Usage, goal: float | None = None) -> Figures:
    """Cost of reads, which write nothing."""
    found = moved(name, nbytes, took_s, used, goal)
    del found[f"{name}: written"]
    return found


def answered(
    name: str, count: int, noun: str, took_s: float, used: Usage, goal: float | None = None
) -> Figures:
    """Cost per request."""
    return {
        f"{name}: CPU": (used.cpu_s / count * 1e6, Measure(f"server CPU us per {noun}", goal=goal)),
        f"{name}: rate": (count / took_s, Measure(f"{noun}s/s", less_is_better=False)),
        f"{name}: switches": (used.switches / count, Measure(f"context switches per {noun}", aside=True)),
        f"{name}: written": (used.written_bytes / count, Measure(f"bytes written per {noun}", aside=True)),
    }
