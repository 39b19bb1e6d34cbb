"""Wait for a condition instead of sleeping for a fixed time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

TIMEOUT_S = 30.0
INTERVAL_S = 0.02
ASYNC_INTERVAL_S = 0.002


def wait_until(condition: Callable[[], T], what: object = "the condition", timeout_s: float = TIMEOUT_S) -> T:
    """Call `condition` until its result is true and return that; fail with `what` after `timeout_s`.

    `what` may be a callable that describes the state at the time of the failure.
    """
    deadline_s = time.monotonic() + timeout_s
    while not (result := condition()):
        if time.monotonic() >= deadline_s:
            raise AssertionError(_failure(what, timeout_s))
        time.sleep(INTERVAL_S)
    return result


async def wait_until_async(
    condition: Callable[[], T], what: object = "the condition", timeout_s: float = TIMEOUT_S
) -> T:
    """Do the same without blocking the event loop."""
    clock = asyncio.get_running_loop()
    deadline_s = clock.time() + timeout_s
    while not (result := condition()):
        if clock.time() >= deadline_s:
            raise AssertionError(_failure(what, timeout_s))
        await asyncio.sleep(ASYNC_INTERVAL_S)
    return result


def _failure(what: object, timeout_s: float) -> str:
    return f"not within {timeout_s:g} s: {what() if callable(what) else what}"
