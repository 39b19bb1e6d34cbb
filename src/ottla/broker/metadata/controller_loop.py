"""The active controller at work: decide, append, commit, apply, reply.

Commands queue up; everything that waits is decided in turn and appended together. The next group is decided
while this one is on its way through the quorum: the controller's own image runs ahead of what is committed. A
reply is given when its records are committed and this node has acted on them, so that whoever was told
"created" can produce.

When the leadership ends, what was appended has an open fate: it may be committed by the next leader or not.
Everybody who waits hears NotController and asks again there.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.metadata.raft_driver import NotLeader
from ottla.protocol.message import Message
from ottla.storage.errors import DiskFull, StorageError

if TYPE_CHECKING:
    from ottla.broker.metadata.raft_driver import RaftDriver
    from ottla.controller.controller import Controller
    from ottla.controller.image import ClusterImage
    from ottla.machines.outcome import Outcome

QUEUE_MAX = 1000
GROUP_MAX = 64  # commands that share one append

log = logging.getLogger("ottla.controller")

# (controller, now_ms, the offset of the decision's first record)
Decide = Callable[["Controller", int, int], "Outcome"]
_Waiting = tuple[asyncio.Future[Any], Any]


class NotController(Exception):
    """This node does not run the active controller, or not any more."""


class ControllerLoop:
    """The controller of one epoch of the quorum."""

    def __init__(
        self,
        controller: Controller,
        quorum: RaftDriver,
        epoch: int,
        *,
        clock: Callable[[], int],
        committed_image: Callable[[], ClusterImage],
    ) -> None:
        self.epoch = epoch
        self.unclean_elections = 0
        self._controller = controller
        self._quorum = quorum
        self._clock = clock
        self._committed_image = committed_image
        self._queue: deque[tuple[Decide, asyncio.Future[Any]]] = deque()
        self._uncommitted: deque[tuple[int, list[_Waiting]]] = deque()  # (offset that follows, who waits)
        self._scheduled = False
        self._over = False
        self._stepping_back = False

    def submit(self, decide: Decide) -> asyncio.Future[Any]:
        """A future of the reply to a command, once its records are committed and applied here."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._over:
            future.set_exception(NotController("the controller has moved"))
        elif len(self._queue) >= QUEUE_MAX:
            future.set_exception(NotController(f"{QUEUE_MAX} commands are waiting"))
        else:
            self._queue.append((decide, future))
            self._schedule()
        return future

    def applied(self, offset: int) -> None:
        """Everything below `offset` is committed, and this node has acted on it."""
        while self._uncommitted and self._uncommitted[0][0] <= offset:
            _, waiting = self._uncommitted.popleft()
            for future, reply in waiting:
                if not future.done():
                    future.set_result(reply)
        if self._stepping_back and not self._uncommitted:
            self._step_back()

    def end(self) -> None:
        """The leadership is over: whoever waits has to ask the next controller."""
        self._over = True
        waiting = [future for _, future in self._queue]
        waiting += [future for _, group in self._uncommitted for future, _ in group]
        self._queue.clear()
        self._uncommitted.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(NotController("the controller has moved"))

    # -- inside

    def _schedule(self) -> None:
        if not self._scheduled and not self._stepping_back:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._carry_out)

    def _carry_out(self) -> None:
        """Decide on what waits, and append it."""
        self._scheduled = False
        if self._over or self._stepping_back:
            return
        queue = self._queue
        group = [queue.popleft() for _ in range(min(GROUP_MAX, len(queue)))]
        if queue:
            self._schedule()
        records: list[Message] = []
        decided: list[_Waiting] = []
        for decide, future in group:
            try:
                decided.append((future, self._decide(decide, records)))
            except Exception as error:
                log.exception("command failed")
                if not future.done():
                    future.set_exception(error)
        if not records:
            self._reply_behind(decided)
            return
        try:
            last_offset = self._quorum.append(records, self.epoch)
        except (StorageError, NotLeader) as error:
            self._not_written(decided, error)
        else:
            self._uncommitted.append((last_offset + 1, decided))

    def _decide(self, decide: Decide, records: list[Message]) -> Any:
        next_offset = self._quorum.log.end_offset + len(records)
        decision = decide(self._controller, self._clock(), next_offset)
        for record in decision.records:
            self._controller.image.apply(record)
        records += decision.records
        for election in decision.effects:
            self.unclean_elections += 1
            text = "unclean election, acknowledged records may be lost: partition=%s-%d leader=%d epoch=%d"
            log.error(text, *election)
        return decision.reply

    def _reply_behind(self, decided: list[_Waiting]) -> None:
        """Replies without records of their own may rest on records that are not committed yet."""
        if self._uncommitted:
            self._uncommitted[-1][1].extend(decided)
            return
        for future, reply in decided:
            if not future.done():
                future.set_result(reply)

    def _not_written(self, decided: list[_Waiting], error: Exception) -> None:
        """Nothing of the group is in the log, but the image has it."""
        answer = error if isinstance(error, StorageError) else NotController(str(error))
        for future, _ in decided:
            if not future.done():
                future.set_exception(answer)
        if isinstance(error, DiskFull):
            # With room it can be tried again, from what is committed then.
            log.error("metadata not written: %s", error)
            self._stepping_back = True
            if not self._uncommitted:
                self._step_back()
        elif isinstance(error, StorageError):
            log.error("the controller gives up: %s", error)
            self._quorum.resign(self.epoch)

    def _step_back(self) -> None:
        self._stepping_back = False
        self._controller.go_back_to(self._committed_image())
        if self._queue:
            self._schedule()
