"""The memory that all connections together may use for large requests.

A frame that does not fit a connection's ordinary buffer takes its whole size from the budget before more of
it is received, so a frame that has begun can be completed. Others wait in order; TCP holds their bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class ReceiveBudget:
    __slots__ = ("_waiting", "free_bytes", "limit_bytes", "reclaim")

    def __init__(self, limit_bytes: int, reclaim: Callable[[], None] | None = None) -> None:
        """`reclaim` is called when the budget is used up: it releases the buffers of idle connections."""
        self.limit_bytes = limit_bytes
        self.free_bytes = limit_bytes
        self.reclaim = reclaim
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def is_wanted(self) -> bool:
        """Whether a connection waits for memory: buffers kept for reuse should then be released."""
        return bool(self._waiting)

    def take(self, nbytes: int) -> bool:
        """Reserve memory; False if there is not enough."""
        assert nbytes <= self.limit_bytes, "a request is larger than the whole budget"
        if nbytes > self.free_bytes and self.reclaim is not None:
            self.reclaim()
        if nbytes > self.free_bytes:
            return False
        self.free_bytes -= nbytes
        return True

    def give_back(self, nbytes: int) -> None:
        self.free_bytes += nbytes
        assert self.free_bytes <= self.limit_bytes, "more memory returned than taken"
        # Each retries, and waits again if there is still not enough: first come, first served.
        for _ in range(len(self._waiting)):
            self._waiting.popleft()()

    def wait(self, retry: Callable[[], None]) -> None:
        """Call `retry` when memory has been returned."""
        self._waiting.append(retry)
