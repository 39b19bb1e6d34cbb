"""Jobs that run at fixed intervals, one task each.

Lowest layer of `ottla.broker`: every other layer may import it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

log = logging.getLogger("ottla.periodic")

Job = tuple[Callable[[], object], int]  # a function or coroutine function, and the interval in milliseconds


class PeriodicTasks:
    """A job that fails is logged and runs again; it does not affect the others."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._jobs = list(jobs)
        self._tasks: list[asyncio.Task[None]] = []
        self._running: set[asyncio.Future[Any]] = set()

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._run(job, period_ms)) for job, period_ms in self._jobs]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        # A job that has begun owns files: wait for it.
        waiting: list[asyncio.Future[Any]] = [*self._tasks, *self._running]
        if waiting:
            await asyncio.wait(waiting)

    async def _run(self, job: Callable[[], object], period_ms: int) -> None:
        while True:
            await asyncio.sleep(period_ms / 1000)
            try:
                result = job()
                if asyncio.iscoroutine(result):
                    running = asyncio.ensure_future(result)
                    self._running.add(running)
                    running.add_done_callback(self._running.discard)
                    await asyncio.shield(running)
            except Exception:
                log.exception("periodic job failed: job=%s", getattr(job, "__qualname__", job))
