"""Jobs that run at fixed intervals, one task each.

A layer below all parts of the broker: each of them may import it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ottla.broker.background import BackgroundTasks, cancel, result_of

Job = tuple[Callable[[], object], int]  # a function or coroutine function, and the interval in milliseconds


class PeriodicTasks:
    """A job that fails is logged and runs again; it does not affect the others."""

    def __init__(self, jobs: Iterable[Job], tasks: BackgroundTasks) -> None:
        self._jobs = list(jobs)
        self._background = tasks
        self._tasks: list[asyncio.Task[None]] = []
        self._running: set[asyncio.Future[Any]] = set()

    def start(self) -> None:
        self._tasks = [
            self._background.keep_running(_name(job), partial(self._run, job, period_ms))
            for job, period_ms in self._jobs
        ]

    async def stop(self) -> None:
        await cancel(*self._tasks)
        if self._running:
            await asyncio.wait(self._running)  # a job that has begun owns files

    async def _run(self, job: Callable[[], object], period_ms: int) -> None:
        while True:
            await asyncio.sleep(period_ms / 1000)
            try:
                result = job()
                if asyncio.iscoroutine(result):
                    running = result_of(result)
                    self._running.add(running)
                    running.add_done_callback(self._running.discard)
                    await asyncio.shield(running)
            except Exception as error:
                self._background.failed(_name(job), error, f"again in {period_ms} ms")


def _name(job: Callable[[], object]) -> str:
    return getattr(job, "__qualname__", repr(job))
