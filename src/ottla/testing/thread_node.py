"""One broker on a thread of this process, with an event loop of its own: for debuggers and coverage."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.testing.process_node import BrokerError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


class BrokerThread:
    """The same life as `BrokerProcess`, except that a thread cannot be killed."""

    pid: int | None = None

    def __init__(self, *, data_dir: str, listen: str, settings: Mapping[str, str]) -> None:
        self.data_dir = data_dir
        self.listen = listen
        self.settings = dict(settings)
        self.address = listen
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._error: BaseException | None = None

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, timeout_s: float) -> None:
        assert not self.running, "already running"
        self._ready.clear()
        self._error = None
        self._thread = threading.Thread(target=self._run, name=f"ottla-{self.listen}", daemon=True)
        self._thread.start()
        if not self._ready.wait(timeout_s):
            raise BrokerError(f"the broker on {self.listen} was not ready after {timeout_s:g} s")
        if self._error is not None:
            self._thread.join()
            raise BrokerError(f"the broker on {self.listen} did not start: {self._error}") from self._error

    def _run(self) -> None:
        from ottla.cli.serve import new_event_loop

        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        from ottla.broker.broker import Broker
        from ottla.config.load import load_broker_config

        properties = {"log.dirs": self.data_dir, "listeners": f"PLAINTEXT://{self.listen}", **self.settings}
        broker: Broker = Broker(load_broker_config(None, properties))
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        await broker.start()
        try:
            self.address = broker.bootstrap_servers
            self._ready.set()
            await self._stop.wait()
        finally:
            await broker.stop()

    def stop(self, timeout_s: float) -> None:
        thread = self._thread
        if thread is None:
            return
        if self._loop is not None and self._stop is not None and thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        thread.join(timeout_s)
        if thread.is_alive():
            raise BrokerError(f"the broker on {self.address} did not stop within {timeout_s:g} s")
        self._thread = self._loop = self._stop = None
        if self._error is not None:
            raise BrokerError(f"the broker on {self.address} failed: {self._error}") from self._error

    def kill(self) -> None:
        raise ValueError("an in-process broker cannot be killed: use Cluster(in_process=False)")

    def log_tail(self) -> str:
        return ""
