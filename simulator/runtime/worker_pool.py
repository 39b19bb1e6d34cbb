"""The worker threads of a process: as many jobs run at a time as an executor has threads, the others wait.

A job takes the time that its process draws for it, then its function runs atomically, and then its thread
is blocked for as long as the function's file operations cost (slow and hanging directories, see disk.py).
Only then the thread is free and the caller gets the result.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any, NamedTuple, Protocol

DEFAULT_THREADS = 8  # of the loop's own executor


class Job(NamedTuple):
    future: asyncio.Future[Any]
    func: Callable[..., Any]
    args: tuple[Any, ...]
    context: Context


class JobLoop(Protocol):
    """What a pool uses of the loop."""

    def job_delay_ns(self, process: Any) -> int: ...

    def job_after(self, delay_ns: int, process: Any, job: Job, step: Callable[[Job], None]) -> None: ...

    def run_job(self, process: Any, job: Job) -> tuple[Any, Exception | None, int]: ...


class WorkerPool:
    def __init__(self, loop: JobLoop, process: Any, threads: int) -> None:
        self.threads = threads
        self.waiting: deque[Job] = deque()
        self.running = 0
        self._loop = loop
        self._process = process

    def submit(self, job: Job) -> None:
        if self.running < self.threads:
            self._begin(job)
        else:
            self.waiting.append(job)

    def _begin(self, job: Job) -> None:
        self.running += 1
        self._loop.job_after(self._loop.job_delay_ns(self._process), self._process, job, self._run)

    def _run(self, job: Job) -> None:
        result, error, cost_ns = self._loop.run_job(self._process, job)

        def end(job: Job) -> None:
            self._end(job, result, error)

        if cost_ns:
            self._loop.job_after(cost_ns, self._process, job, end)
        else:
            end(job)

    def _end(self, job: Job, result: Any, error: Exception | None) -> None:
        if not job.future.done():
            if error is not None:
                job.future.set_exception(error)
            else:
                job.future.set_result(result)
        self.running -= 1
        while self.waiting and self.running < self.threads:
            following = self.waiting.popleft()
            if not following.future.cancelled():  # as an executor drops a job that has not begun
                self._begin(following)


def threads_of(executor: Any) -> int:
    threads = getattr(executor, "_max_workers", DEFAULT_THREADS)
    assert isinstance(threads, int)
    return threads
