"""The active controller at work: decide, append, sync, apply, reply.

Commands queue up; everything that waits is decided in turn, appended together and covered by one fsync. A
reply is given when its records are on the disk and this broker has acted on them, so that whoever was told
"created" can produce.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.protocol.message import Message
from ottla.storage.errors import DiskFull

if TYPE_CHECKING:
    from ottla.controller.controller import Controller
    from ottla.controller.decision import Decision
    from ottla.controller.image import ClusterImage
    from ottla.quorum.single import SingleVoterQuorum

QUEUE_MAX = 1000
GROUP_MAX = 64  # commands that share one fsync

log = logging.getLogger("ottla.controller")

Reply = TypeVar("Reply")
Decide = Callable[["Controller", int], "Decision[Reply]"]
Publish = Callable[[list[Message], int], Awaitable[None]]


class ControllerStopped(Exception):
    """The controller does not take commands any more."""


class ControllerLoop:
    def __init__(
        self,
        controller: Controller,
        quorum: SingleVoterQuorum,
        executor: Executor,
        clock: Callable[[], int],
        publish: Publish,
        committed_image: Callable[[], ClusterImage],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._controller = controller
        self._quorum = quorum
        self._executor = executor
        self._clock = clock
        self._publish = publish
        self._committed_image = committed_image
        self._on_fatal = on_fatal
        self._queue: asyncio.Queue[tuple[Decide[Any], asyncio.Future[Any]]] = asyncio.Queue(QUEUE_MAX)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="controller")

    async def stop(self) -> None:
        """Finish the group under way; whoever still waits is told that it is over."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        while not self._queue.empty():
            _, future = self._queue.get_nowait()
            if not future.done():
                future.set_exception(ControllerStopped("the controller is stopping"))

    @property
    def next_offset(self) -> int:
        """Where the next record goes, as long as no decision of the same group stands before it."""
        return self._quorum.next_offset

    async def submit(self, decide: Decide[Reply]) -> Reply:
        """The reply to a command, once its records are committed and applied here."""
        if self._task is None or self._task.done():
            raise ControllerStopped("the controller is not running")
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        await self._queue.put((decide, future))
        return await future

    async def _run(self) -> None:
        while True:
            group = [await self._queue.get()]
            while len(group) < GROUP_MAX and not self._queue.empty():
                group.append(self._queue.get_nowait())
            # A change that was begun is finished even if the broker is asked to stop meanwhile.
            try:
                await asyncio.shield(asyncio.ensure_future(self._carry_out(group)))
            except Exception as error:
                # The image has run ahead of the log: only a restart, which replays it, makes them one again.
                log.critical("metadata could not be committed, the broker stops: %s", error)
                self._on_fatal(error)
                return

    async def _carry_out(self, group: list[tuple[Decide[Any], asyncio.Future[Any]]]) -> None:
        records: list[Message] = []
        decided: list[tuple[asyncio.Future[Any], Any]] = []
        log_end_offset = self._quorum.next_offset
        for decide, future in group:
            try:
                decision = self._decide(decide, records)
            except Exception as error:
                log.exception("command failed")
                if not future.done():
                    future.set_exception(error)
            else:
                decided.append((future, decision.reply))
        try:
            if records:
                await self._commit(records)
        except Exception as error:
            for future, _ in decided:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, DiskFull) or self._quorum.next_offset != log_end_offset:
                raise
            # Nothing of the group is in the log, and with room it can be tried again.
            log.error("metadata not written: %s", error)
            self._controller.go_back_to(self._committed_image())
            return
        for future, reply in decided:
            if not future.done():
                future.set_result(reply)

    def _decide(self, decide: Decide[Reply], records: list[Message]) -> Decision[Reply]:
        decision = decide(self._controller, self._clock())
        for record in decision.records:
            self._controller.image.apply(record)
        records += decision.records
        return decision

    async def _commit(self, records: list[Message]) -> None:
        _, last_offset = self._quorum.append(records, self._clock())
        job = self._quorum.begin_sync()
        if job is not None:
            await asyncio.get_running_loop().run_in_executor(self._executor, job.run)
            self._quorum.finish_sync(job, self._clock())
        await self._publish(records, last_offset)
