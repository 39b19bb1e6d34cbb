"""Deadlines and back-off on a clock that the shell supplies."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.client.errors import ClientError

# Pauses are shortened by up to this share, so that clients spread out.
JITTER = 0.2


class Clock(NamedTuple):
    """Monotonic seconds, and a source of randomness in [0, 1)."""

    now_s: Callable[[], float]
    random: Callable[[], float]


class Deadline:
    """A point in time on the monotonic clock."""

    __slots__ = ("_now_s", "at_s", "timeout_ms")

    def __init__(self, timeout_ms: float, clock: Clock) -> None:
        self.timeout_ms = timeout_ms
        self._now_s = clock.now_s
        self.at_s = clock.now_s() + timeout_ms / 1000

    def extend(self, seconds: float) -> None:
        """For time in which nothing could be done: it does not count."""
        self.at_s += seconds

    @property
    def left_ms(self) -> float:
        return max(0.0, (self.at_s - self._now_s()) * 1000)

    @property
    def passed(self) -> bool:
        return self._now_s() >= self.at_s


class Backoff:
    """Pauses that double from `first_ms` to `max_ms`, with jitter."""

    __slots__ = ("_next_ms", "_random", "first_ms", "max_ms")

    def __init__(self, first_ms: float, max_ms: float, clock: Clock) -> None:
        self.first_ms = first_ms
        self.max_ms = max_ms
        self._random = clock.random
        self._next_ms = first_ms

    def next_ms(self) -> float:
        pause_ms = self._next_ms * (1 - JITTER * self._random())
        self._next_ms = min(self._next_ms * 2, self.max_ms)
        return pause_ms

    def reset(self) -> None:
        self._next_ms = self.first_ms


class Retry:
    """Whether and when to repeat what failed: retriable errors, with back-off, until a deadline."""

    __slots__ = ("backoff", "deadline")

    def __init__(self, deadline: Deadline, backoff: Backoff) -> None:
        self.deadline = deadline
        self.backoff = backoff

    def pause_ms(self, error: ClientError) -> float:
        """The pause before the next attempt. Raises `error` if there is none."""
        if not error.retriable or self.deadline.passed:
            raise error
        return min(self.backoff.next_ms(), self.deadline.left_ms)
