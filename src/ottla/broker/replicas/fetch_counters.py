"""Counters of the follower fetchers."""

from __future__ import annotations


class FetchCounters:
    """Totals over all fetchers."""

    __slots__ = ("bytes_in", "truncations")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.truncations = 0
