"""The clock of this machine, for the shells and for code that waits with the client's back-off."""

from __future__ import annotations

import random
import time

from ottla.client.core.retry import Backoff, Clock, Deadline

SYSTEM_CLOCK = Clock(time.monotonic, random.random)


def deadline_in(timeout_ms: float) -> Deadline:
    return Deadline(timeout_ms, SYSTEM_CLOCK)


def backoff_between(first_ms: float, max_ms: float) -> Backoff:
    return Backoff(first_ms, max_ms, SYSTEM_CLOCK)
