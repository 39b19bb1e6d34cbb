"""When to try again: exponential pauses with jitter until a deadline."""

from __future__ import annotations

import asyncio
import random
import time


class Deadline:
    """A point in time on the monotonic clock."""

    __slots__ = ("at_s", "timeout_ms")

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms
        self.at_s = time.monotonic() + timeout_ms / 1000

    @property
    def left_ms(self) -> float:
        return max(0.0, (self.at_s - time.monotonic()) * 1000)

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self.at_s


class Backoff:
    """Pauses that double from `first_ms` to `max_ms`, each shortened at random so that clients spread out."""

    __slots__ = ("_next_ms", "first_ms", "max_ms")

    def __init__(self, first_ms: float, max_ms: float) -> None:
        self.first_ms = first_ms
        self.max_ms = max_ms
        self._next_ms = first_ms

    def next_ms(self) -> float:
        pause_ms = self._next_ms * random.uniform(0.8, 1.0)
        self._next_ms = min(self._next_ms * 2, self.max_ms)
        return pause_ms

    def reset(self) -> None:
        self._next_ms = self.first_ms

    async def pause(self, deadline: Deadline | None = None) -> None:
        pause_ms = self.next_ms()
        if deadline is not None:
            pause_ms = min(pause_ms, deadline.left_ms)
        await asyncio.sleep(pause_ms / 1000)
