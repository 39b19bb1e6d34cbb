"""One broker on a thread of this process with its own event loop, for debuggers and coverage."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.testing.process_node import BrokerError

if TYPE_CHECKING:
    from ottla.broker.node import Node

KILL_TIMEOUT_S = 30.0


class BrokerThread:
    """The interface of `BrokerProcess`: `kill` abandons the broker, `pause` blocks its event loop."""

    pid: int | None = None

    def __init__(
        self, *, data_dir: str, listen: str, settings: Mapping[str, str], connect_from: str | None = None
    ) -> None:
        self.data_dir = data_dir
        self.listen = listen
        self.settings = dict(settings)
        self.address = listen
        self.connect_from = connect_from
        self.paused = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._stop: asyncio.Event | None = None
        self._killed = False
        self._resumed = threading.Event()
        self._ready = threading.Event()
        self._error: BaseException | None = None

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, timeout_s: float) -> None:
        assert not self.running, "already running"
        self._ready.clear()
        self._error = None
        self._killed = False
        self._thread = threading.Thread(target=self._run, name=f"ottla-{self.listen}", daemon=True)
        self._thread.start()
        if not self._ready.wait(timeout_s):
            self.kill()
            raise BrokerError(f"the broker on {self.listen} was not ready after {timeout_s:g} s")
        if self._error is not None:
            self._thread.join()
            raise BrokerError(f"the broker on {self.listen} did not start: {self._error}") from self._error

    def _run(self) -> None:
        from ottla.launch.event_loop import new_event_loop

        try:
            with asyncio.Runner(loop_factory=lambda: new_event_loop(self.connect_from)) as runner:
                runner.run(self._serve())
        except BaseException as error:
            if not self._killed:
                self._error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        from ottla.broker.node import Node
        from ottla.config.load import load_broker_config

        properties = {"log.dirs": self.data_dir, "listeners": f"PLAINTEXT://{self.listen}", **self.settings}
        broker: Node = Node(load_broker_config(None, properties))
        self._loop = asyncio.get_running_loop()
        self._main = asyncio.current_task()
        self._stop = asyncio.Event()
        await broker.start()
        try:
            if "listeners" not in self.settings:
                self.address = broker.bootstrap_servers
            self._ready.set()
            await self._stop.wait()
        finally:
            if self._killed:
                await broker._abandon()
            else:
                await broker.stop()

    def stop(self, timeout_s: float) -> None:
        thread = self._thread
        if thread is None:
            return
        self.resume()
        if self._loop is not None and self._stop is not None and thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        thread.join(timeout_s)
        if thread.is_alive():
            raise BrokerError(f"the broker on {self.address} did not stop within {timeout_s:g} s")
        self._thread = self._loop = self._stop = self._main = None
        if self._error is not None:
            raise BrokerError(f"the broker on {self.address} failed: {self._error}") from self._error

    def kill(self) -> None:
        """Abandon the broker: connections are reset, nothing is flushed, no clean shutdown is recorded.

        Written data stays, as with a killed process.
        """
        thread, loop, main = self._thread, self._loop, self._main
        if thread is None:
            return
        self._killed = True
        self.resume()
        if loop is not None and main is not None and thread.is_alive():
            loop.call_soon_threadsafe(main.cancel)
        thread.join(KILL_TIMEOUT_S)
        if thread.is_alive():
            raise BrokerError(f"the broker on {self.address} did not end within {KILL_TIMEOUT_S:g} s")
        self._thread = self._loop = self._stop = self._main = None

    def pause(self) -> None:
        """Block its event loop until `resume`."""
        if self._loop is None or not self.running:
            raise BrokerError(f"the broker on {self.address} cannot be paused: it does not run")
        if not self.paused:
            self.paused = True
            self._resumed.clear()
            held = threading.Event()

            def hold() -> None:
                held.set()
                self._resumed.wait()

            self._loop.call_soon_threadsafe(hold)
            held.wait()

    def resume(self) -> None:
        self.paused = False
        self._resumed.set()

    def log_tail(self) -> str:
        return ""
