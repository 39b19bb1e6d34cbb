"""The time of a machine: the wall clock, and a wake-up when its next timer is due.

Deadlines of machines are wall-clock times. Neither of these may expire a session early: a clock that was set,
or an event loop that was blocked and has not read pending heartbeats.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

log = logging.getLogger("ottla.hosting")

NOT_ARMED_MS = 1 << 62
# A timer that fires this late was delayed with the whole event loop: read unread requests first.
LATE_MS = 1000
LATE_GRACE_MS = 500
# Wall clock against monotonic time: a larger difference is a jump.
JUMP_MS = 50


class MachineClock:
    """`may_run` returns whether the machine can decide now; if not, the timer is retried."""

    __slots__ = (
        "_clock",
        "_clock_jumped",
        "_handle",
        "_is_late",
        "_loop",
        "_may_run",
        "_name",
        "_offset_ms",
        "_wake",
        "wake_ms",
    )

    def __init__(
        self, clock: Callable[[], int], *, name: str, may_run: Callable[[], bool], wake: Callable[[], None]
    ) -> None:
        self._clock = clock
        self._name = name  # for the log
        self._may_run = may_run
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._clock_jumped: Callable[[int], None] | None = None
        self._offset_ms = 0.0  # of the wall clock to monotonic time
        self._handle: asyncio.TimerHandle | None = None
        self._is_late = False
        self.wake_ms = NOT_ARMED_MS

    def start(self, clock_jumped: Callable[[int], None] | None) -> None:
        """`clock_jumped` belongs to a machine whose deadlines are spans of time: it shifts them."""
        self._clock_jumped = clock_jumped
        self._offset_ms = self._clock() - self._loop.time() * 1000

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def now_ms(self) -> int:
        """Return the wall-clock time; report a jump to the machine first."""
        now_ms = self._clock()
        if self._clock_jumped is not None:
            offset_ms = now_ms - self._loop.time() * 1000
            jump_ms = round(offset_ms - self._offset_ms)
            self._offset_ms = offset_ms
            if abs(jump_ms) > JUMP_MS:
                if abs(jump_ms) > LATE_MS:
                    log.warning("the clock was set: partition=%s by_ms=%d", self._name, jump_ms)
                self._clock_jumped(jump_ms)
                if self.wake_ms != NOT_ARMED_MS:
                    self.wake_ms += jump_ms
        return now_ms

    def arm(self, wake_ms: int, now_ms: int) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self.wake_ms = wake_ms
        self._handle = self._loop.call_later(max(1, wake_ms - now_ms) / 1000, self._fire)

    def _fire(self) -> None:
        now_ms = self.now_ms()
        was_late, self._is_late = self._is_late, now_ms - self.wake_ms > LATE_MS
        if (self._is_late and not was_late) or not self._may_run():
            self._handle = self._loop.call_later(LATE_GRACE_MS / 1000, self._fire)
            return
        self._is_late = False
        self._handle, self.wake_ms = None, NOT_ARMED_MS
        self._wake()
