"""Wait on the event loop with back-off."""

from __future__ import annotations

import asyncio

from ottla.client.core.retry import Backoff, Deadline


async def pause(backoff: Backoff, deadline: Deadline | None = None) -> None:
    """Sleep for the next pause of `backoff`, at most until `deadline`."""
    pause_ms = backoff.next_ms()
    if deadline is not None:
        pause_ms = min(pause_ms, deadline.left_ms)
    await asyncio.sleep(pause_ms / 1000)
