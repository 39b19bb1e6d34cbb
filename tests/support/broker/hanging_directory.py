"""A log directory of a simulated node whose disk does not answer: its threads stand still until `answer`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from simulator.world import Node

Job = tuple["asyncio.Future[Any]", Any, Callable[..., Any], tuple[Any, ...]]


class HangingDirectory:
    def __init__(self, node: Node, path: str) -> None:
        assert node.broker is not None and node.process is not None
        loop: Any = node.world.loop
        self._context = node.process.context
        self._run = loop.run_in_executor
        self._executors = set(node.broker.io.of(path).executors())
        self.waiting: list[Job] = []
        self.hangs = True
        loop.run_in_executor = self._submit
        self._loop = loop

    def _submit(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        if not self.hangs or executor not in self._executors:
            return self._run(executor, func, *args)  # type: ignore[no-any-return]
        future: asyncio.Future[Any] = self._loop.create_future()
        self.waiting.append((future, executor, func, args))
        return future

    def answer(self) -> None:
        """Complete everything that hangs."""
        self.hangs = False
        for future, executor, func, args in self.waiting:
            job = self._context.copy().run(self._run, executor, func, *args)
            job.add_done_callback(lambda done, future=future: _copy(done, future))
        self.waiting.clear()


def _copy(done: asyncio.Future[Any], future: asyncio.Future[Any]) -> None:
    if future.cancelled():
        done.exception()
    elif (error := done.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(done.result())
