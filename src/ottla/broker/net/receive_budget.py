"""How much memory all connections together may use for large requests.

A frame that does not fit a connection's ordinary buffer takes its whole size from the budget before it is
received any further, so whoever has begun can finish; others wait in line, with their bytes left to TCP.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class ReceiveBudget:
    __slots__ = ("_waiting", "free_bytes", "limit_bytes", "reclaim")

    def __init__(self, limit_bytes: int, reclaim: Callable[[], None] | None = None) -> None:
        """`reclaim` is called when the budget is used up: to take back what idle connections keep."""
        self.limit_bytes = limit_bytes
        self.free_bytes = limit_bytes
        self.reclaim = reclaim
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def is_wanted(self) -> bool:
        """Somebody stands in line: what is kept for convenience should go back."""
        return bool(self._waiting)

    def take(self, nbytes: int) -> bool:
        """Reserve so much, or say no."""
        assert nbytes <= self.limit_bytes, "no request may be larger than the budget of all"
        if nbytes > self.free_bytes and self.reclaim is not None:
            self.reclaim()
        if nbytes > self.free_bytes:
            return False
        self.free_bytes -= nbytes
        return True

    def give_back(self, nbytes: int) -> None:
        self.free_bytes += nbytes
        assert self.free_bytes <= self.limit_bytes, "more was given back than taken"
        # Each asks again, and lines up again if it is still too much: the first in line goes first.
        for _ in range(len(self._waiting)):
            self._waiting.popleft()()

    def wait(self, retry: Callable[[], None]) -> None:
        """Call `retry` when there is more."""
        self._waiting.append(retry)
