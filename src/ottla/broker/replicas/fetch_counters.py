"""Counters of the follower fetchers."""

from __future__ import annotations


class FetchCounters:
    """What all fetchers together have done."""

    __slots__ = ("bytes_in", "truncations")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.truncations = 0
