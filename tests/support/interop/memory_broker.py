"""A broker on a thread, over files in memory that fail on command."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

from ottla.broker.node import Node
from ottla.config.load import load_broker_config
from ottla.testing.files import FaultyFiles

Result = TypeVar("Result")
START_TIMEOUT_S = 20


class MemoryBroker:
    def __init__(self, broker: Node, files: FaultyFiles, loop: asyncio.AbstractEventLoop) -> None:
        self.broker = broker
        self.files = files
        self.servers = f"127.0.0.1:{broker.port}"
        self._loop = loop

    def on_loop(self, work: Callable[[], Result]) -> Result:
        """Run `work` on the broker's event loop."""
        done: Future[Result] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result(START_TIMEOUT_S)

    def copy_of_files(self) -> FaultyFiles:
        """Return a copy of the current files, to be crashed and used by another broker."""

        def copied() -> FaultyFiles:
            while True:
                try:
                    return copy.deepcopy(self.files)
                except RuntimeError:
                    continue  # a sync thread created or removed a file meanwhile

        return self.on_loop(copied)


@contextmanager
def memory_broker(files: FaultyFiles, **properties: object) -> Iterator[MemoryBroker]:
    settings = {"log.dirs": "/data", "listeners": "PLAINTEXT://127.0.0.1:0"}
    settings |= {key: str(value) for key, value in properties.items()}
    ready: Future[tuple[Node, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        try:
            broker = Node(load_broker_config(None, settings), files=files)
            await broker.start()
        except BaseException as error:
            ready.set_exception(error)
            return
        stop = asyncio.Event()
        ready.set_result((broker, asyncio.get_running_loop(), stop))
        await stop.wait()
        await broker.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="memory-broker")
    thread.start()
    try:
        broker, loop, stop = ready.result(START_TIMEOUT_S)
        try:
            yield MemoryBroker(broker, files, loop)
        finally:
            loop.call_soon_threadsafe(stop.set)
    finally:
        thread.join(START_TIMEOUT_S)
        assert not thread.is_alive(), "the broker does not stop"
