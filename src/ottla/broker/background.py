"""Background work of a node: no task may end unnoticed.

Parts start their tasks here and nowhere else (tools/tidy.py checks it), and declare what a failure means:

    keep_running   work without an end: it is restarted after a pause, or its failure ends the node
    run_to_end     work that ends by itself: it is restarted after a pause until it has succeeded
    run_once       one attempt: whoever started it notices that the effect is missing, and tries again
    result_of      the caller takes the result, and gets the exception

Except for `result_of`, a failure is logged and counted by the name of the work. Callbacks that schedule
themselves again go through `guard`.

Lowest layer of `ottla.broker`: every other layer may import it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

log = logging.getLogger("ottla.background")

RESTART_AFTER_MS = 100
RESTART_AFTER_MS_MAX = 10_000

Result = TypeVar("Result")
Work = Callable[[], Coroutine[Any, Any, None]]


class EndedUnexpectedly(Exception):
    """Work without an end has returned, or was cancelled by nobody who may."""


class BackgroundTasks:
    """The tasks of one node. `on_fatal` ends the node."""

    def __init__(self, on_fatal: Callable[[BaseException], None]) -> None:
        self._on_fatal = on_fatal
        self.failures: Counter[str] = Counter()  # by the name of the work

    # -- tasks

    def keep_running(
        self, name: str, work: Work, *, fatal: bool = False, explained: tuple[type[Exception], ...] = ()
    ) -> asyncio.Task[None]:
        """Run work without an end until the task is cancelled.

        `fatal`: the node cannot continue without it. `explained`: errors whose message says enough; others
        are logged with a traceback.
        """
        running = self._run_fatal(name, work, explained) if fatal else self._restart(name, work, ends=False)
        return _new_task(running, name)

    def run_to_end(self, name: str, work: Work) -> asyncio.Task[None]:
        """Run work that ends by itself; after a failure, again. It must be safe to repeat."""
        return _new_task(self._restart(name, work, ends=True), name)

    def run_once(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = _new_task(work, name)
        task.add_done_callback(self._ran_once)
        return task

    def _ran_once(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed(task.get_name(), error)

    async def _restart(self, name: str, work: Work, *, ends: bool) -> None:
        loop = asyncio.get_running_loop()
        pause_ms = RESTART_AFTER_MS
        while True:
            began_s = loop.time()
            error = await _attempt(work, ends=ends)
            if error is None:
                return
            if (loop.time() - began_s) * 1000 > RESTART_AFTER_MS_MAX:
                pause_ms = RESTART_AFTER_MS  # it ran well for a while
            self.failed(name, error, f"restarted in {pause_ms} ms")
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, RESTART_AFTER_MS_MAX)

    async def _run_fatal(self, name: str, work: Work, explained: tuple[type[Exception], ...]) -> None:
        error = await _attempt(work, ends=False)
        assert error is not None
        self.fatal(name, error, explained)

    # -- callbacks

    def guard(self, name: str, callback: Callable[[], None], recover: Callable[[], None]) -> None:
        """Run a callback of the event loop. If it fails, `recover` brings its chain back, after a pause."""
        try:
            callback()
        except Exception as error:
            self.failed(name, error, f"again in {RESTART_AFTER_MS} ms")
            asyncio.get_running_loop().call_later(RESTART_AFTER_MS / 1000, recover)

    # -- failures

    def failed(self, name: str, error: BaseException, reaction: str = "not repeated here") -> None:
        """Log and count the failure of some work."""
        self.failures[name] += 1
        text = "background work failed: work=%s count=%d: %s"
        log.error(text, name, self.failures[name], reaction, exc_info=error)

    def fatal(self, name: str, error: Exception, explained: tuple[type[Exception], ...] = ()) -> None:
        """Log and count a failure that the node cannot survive, and end the node."""
        self.failures[name] += 1
        if isinstance(error, explained):
            log.critical("the node cannot continue: work=%s error=%s", name, error)
        else:
            log.critical("the node cannot continue: work=%s", name, exc_info=error)
        self._on_fatal(error)


def result_of(work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
    """Run work next to the caller, who takes its result."""
    return _new_task(work, None)


async def cancel(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel tasks and wait until they have ended."""
    running = [task for task in tasks if task is not None and not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)


def _new_task(work: Coroutine[Any, Any, Result], name: str | None) -> asyncio.Task[Result]:
    return asyncio.get_running_loop().create_task(work, name=name)


async def _attempt(work: Work, *, ends: bool) -> Exception | None:
    """Why the work has ended; None if it was meant to end."""
    try:
        await work()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        assert task is not None
        if task.cancelling():
            raise
        return EndedUnexpectedly("a future that it waited for was cancelled")
    except Exception as error:
        return error
    return None if ends else EndedUnexpectedly("it returned")
