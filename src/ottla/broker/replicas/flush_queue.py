"""Limits how many logs of one log directory are flushed at a time, and in which order.

At most `FLUSHES_MAX` flushes run at a time. A flush that somebody waits for (`flush.messages`, a follower
before its next fetch) goes before one that nobody waits for (`flush.ms`, closed segments), and at most
`BACKGROUND_FLUSHES_MAX` of the latter run at a time: when many partitions roll together, their flushes follow
one another and leave room. Within a kind the order is first come, first served, and a log has one flush at a
time, so a busy log cannot starve the others.
"""

from __future__ import annotations

import asyncio

FLUSHES_MAX = 3
BACKGROUND_FLUSHES_MAX = 1


class FlushQueue:
    def __init__(self) -> None:
        self.running = 0
        self._background_running = 0
        self._urgent: dict[object, asyncio.Future[bool]] = {}
        self._background: dict[object, asyncio.Future[bool]] = {}

    def __len__(self) -> int:
        """How many flushes wait to start."""
        return len(self._urgent) + len(self._background)

    def acquire(self, owner: object, *, background: bool) -> asyncio.Future[bool]:
        """Wait until the flush may run; pass the result to `release`. One flush per owner at a time."""
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        (self._background if background else self._urgent)[owner] = waiting
        self._start_next()
        return waiting

    def make_urgent(self, owner: object) -> None:
        """Somebody waits for this flush from now on."""
        waiting = self._background.pop(owner, None)
        if waiting is not None:
            self._urgent[owner] = waiting
            self._start_next()

    def release(self, in_background: bool) -> None:
        """The flush has ended."""
        self.running -= 1
        self._background_running -= in_background
        self._start_next()

    def _start_next(self) -> None:
        while self.running < FLUSHES_MAX:
            if self._urgent:
                self._start(self._urgent, in_background=False)
            elif self._background and self._background_running < BACKGROUND_FLUSHES_MAX:
                self._start(self._background, in_background=True)
            else:
                return

    def _start(self, queue: dict[object, asyncio.Future[bool]], *, in_background: bool) -> None:
        waiting = queue.pop(next(iter(queue)))
        if not waiting.done():  # cancelled
            self.running += 1
            self._background_running += in_background
            waiting.set_result(in_background)
