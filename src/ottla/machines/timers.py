"""Deadlines in a lazy heap: extending one is an assignment; the heap is updated when the old one is due.

A heartbeat extends a member's session, so it must not touch the heap. An entry that is popped before its
deadline is pushed again; an entry whose timer was armed for an earlier time is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from ottla.machines.outcome import Outcome

Action: TypeAlias = Callable[[Outcome, int], None]

NEVER_MS = 1 << 62


class Timer:
    """One deadline. While it is set, `deadline_ms` may be moved to a later time by assignment."""

    __slots__ = ("action", "deadline_ms", "pushed_ms")

    def __init__(self, action: Action) -> None:
        self.action: Action | None = action
        self.deadline_ms = NEVER_MS
        self.pushed_ms = NEVER_MS  # of its entry in the heap that counts

    @property
    def is_set(self) -> bool:
        return self.deadline_ms != NEVER_MS

    def clear(self) -> None:
        """No longer due; it may be armed again."""
        self.deadline_ms = NEVER_MS

    def discard(self) -> None:
        """Never due again: drop the action, which the heap would otherwise keep alive."""
        self.deadline_ms = NEVER_MS
        self.action = None


class Timers:
    """All deadlines of a shard."""

    __slots__ = ("_heap", "_sequence")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._sequence = 0  # makes the order of equal deadlines that of their arming

    def arm(self, timer: Timer, deadline_ms: int) -> None:
        assert timer.action is not None, "timer was discarded"
        timer.deadline_ms = deadline_ms
        if deadline_ms < timer.pushed_ms:
            self._push(timer, deadline_ms)

    def start(self, action: Action, deadline_ms: int) -> Timer:
        timer = Timer(action)
        self.arm(timer, deadline_ms)
        return timer

    def _push(self, timer: Timer, deadline_ms: int) -> None:
        timer.pushed_ms = deadline_ms
        self._sequence += 1
        heappush(self._heap, (deadline_ms, self._sequence, timer))

    @property
    def next_wake_ms(self) -> int | None:
        """When to look again: at the latest when the next deadline is due, at times before it."""
        return self._heap[0][0] if self._heap else None

    def run(self, outcome: Outcome, now_ms: int) -> None:
        """Call the actions that are due, in order of their deadlines."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            pushed_ms, _, timer = heappop(heap)
            if pushed_ms != timer.pushed_ms:
                continue
            timer.pushed_ms = NEVER_MS
            if timer.deadline_ms > now_ms:
                if timer.deadline_ms != NEVER_MS:
                    self._push(timer, timer.deadline_ms)
                continue
            timer.deadline_ms = NEVER_MS
            assert timer.action is not None
            timer.action(outcome, now_ms)

    def shift(self, by_ms: int) -> None:
        """Shift all deadlines after the clock was set."""
        live = [entry for entry in self._heap if entry[0] == entry[2].pushed_ms]
        for _, _, timer in live:
            timer.pushed_ms += by_ms
            if timer.is_set:
                timer.deadline_ms += by_ms
        self._heap = [(timer.pushed_ms, sequence, timer) for _, sequence, timer in live]
        heapify(self._heap)

    def __len__(self) -> int:
        return len(self._heap)
