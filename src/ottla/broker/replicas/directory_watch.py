"""Watches whether the disks of the log directories answer, and takes a directory out of service if not.

A job that has been in a thread of a directory for `PROBE_AFTER_MS` is a reason to probe: to write and sync a
small file there, in a thread of its own. The size of a job does not matter then, only whether the disk makes
progress.

    online --a probe takes log.dir.stall.timeout.ms--> stalled: reported to the controller as offline,
                                                        which moves the leaders
    stalled --the controller knows it, and a probe takes less than PROBE_AFTER_MS--> online: registered again

Time in which the event loop itself was blocked does not count.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.background import cancel
from ottla.storage.errors import DiskFull, StorageError

if TYPE_CHECKING:
    from ottla.broker.background import BackgroundTasks
    from ottla.broker.io_threads import IoThreads
    from ottla.storage.files import Files
    from ottla.storage.manager.log_manager import LogManager
    from ottla.storage.manager.managed_dir import ManagedDir

log = logging.getLogger("ottla.directories")

TICK_MS = 250
PROBE_AFTER_MS = 1000
PROBE_NAME = ".probe"


class _Probe:
    __slots__ = ("task", "waited_ms")

    def __init__(self, task: asyncio.Task[None]) -> None:
        self.task = task
        self.waited_ms = 0.0


class DirectoryWatch:
    def __init__(
        self,
        logs: LogManager,
        files: Files,
        io: IoThreads,
        timeout_ms: int,
        tasks: BackgroundTasks,
        *,
        is_reported: Callable[[ManagedDir], bool],
        on_resumed: Callable[[ManagedDir], None],
    ) -> None:
        """`is_reported`: whether the controller knows that this directory is offline. `on_resumed` is called
        when it is online again."""
        self._logs = logs
        self._files = files
        self._io = io
        self._timeout_ms = timeout_ms
        self._tasks = tasks
        self._is_reported = is_reported
        self._on_resumed = on_resumed
        self._probes: dict[ManagedDir, _Probe] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._timeout_ms > 0:
            self._task = self._tasks.keep_running("directory-watch", self._run)

    async def stop(self) -> None:
        await cancel(self._task, *(probe.task for probe in self._probes.values()))

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            await asyncio.sleep(TICK_MS / 1000)
            elapsed_ms = min(1000 * (loop.time() - began_s), 2 * TICK_MS)
            for log_dir in self._logs.dirs:
                self._check(log_dir, elapsed_ms)

    def _check(self, log_dir: ManagedDir, elapsed_ms: float) -> None:
        probe = self._probes.get(log_dir)
        if probe is None:
            longest_wait_ms = 1000 * self._io.of(log_dir.path).longest_wait_s()
            if log_dir.is_stalled or (log_dir.error is None and longest_wait_ms >= PROBE_AFTER_MS):
                task = self._tasks.run_once("directory-probe", self._probe(log_dir))
                self._probes[log_dir] = _Probe(task)
            return
        probe.waited_ms += elapsed_ms
        if probe.waited_ms >= self._timeout_ms and log_dir.error is None:
            log.error("log directory does not answer: path=%s ms=%d", log_dir.path, probe.waited_ms)
            log_dir.stall(f"no answer for {probe.waited_ms:.0f} ms")

    async def _probe(self, log_dir: ManagedDir) -> None:
        path = f"{log_dir.path}/{PROBE_NAME}"

        def write_and_sync() -> None:
            self._files.write_atomic(path, b"")
            self._files.remove(path)

        try:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._io.of(log_dir.path).probe, write_and_sync)
        except DiskFull:
            pass  # an answer
        except StorageError as error:
            log_dir.fail(error)
        finally:
            probe = self._probes.pop(log_dir)
        if log_dir.is_stalled and probe.waited_ms < PROBE_AFTER_MS and self._is_reported(log_dir):
            log.warning("log directory answers again: path=%s", log_dir.path)
            log_dir.resume()
            self._on_resumed(log_dir)
