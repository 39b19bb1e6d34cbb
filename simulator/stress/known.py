"""Defects that stories find and that are not fixed yet. An entry goes when its defect does.

A complaint that begins with one of the signs of an entry is reported, but is no failure.
"""

from __future__ import annotations

from typing import NamedTuple


class Known(NamedTuple):
    defect: str
    signs: tuple[str, ...]


KNOWN: dict[str, tuple[Known, ...]] = {
    "slow-data": (
        Known(
            "Raft shares its worker threads with the flushes of data",
            ("needless", "no controller", "late", "unavailable"),
        ),
    ),
    "hung-data": (
        Known(
            "A directory that hangs blocks the loop, and the worker threads of Raft",
            ("needless", "no controller", "late", "unavailable"),
        ),
    ),
    "no-descriptors": (
        Known(
            "EMFILE takes a directory offline and ends the process",
            (
                "died",
                "lost",
                "unavailable",
                "NodeDoesNotStart",
                "leaked",
                "surprise",
                "dead task",
                "uncaught",
            ),
        ),
    ),
    "clock-steps": (
        Known(
            "The wall clock drives sessions, replication and Raft",
            ("needless", "late", "unavailable", "no leader", "no controller", "SimulationTooLong"),
        ),
    ),
    "gates": (
        Known(
            "A new controller probes the first listener, which it may not reach",
            ("needless", "no leader", "unavailable"),
        ),
    ),
    "min-isr": (
        Known(
            "The answer of an ISR change overtakes a raised min.insync.replicas",
            ("lost", "two values", "watermark", "unavailable", "surprise", "replicas differ"),
        ),
    ),
}


def split_known(story: str, complaints: list[str]) -> tuple[list[str], list[str]]:
    """Return the complaints that no known defect explains, and those that one does."""
    signs = tuple(sign for entry in KNOWN.get(story, ()) for sign in entry.signs)
    mine = [each for each in complaints if each.startswith((*signs, "and ")) and signs]
    return [each for each in complaints if each not in mine], mine
