"""Hosts the active controller: commands in, replies out when they are committed and applied on this node.

Commands are queued, then decided as a group right before their append: the epoch of a
broker is the offset of its registration record, so a decision must know its offset. The next group is decided
while this one is in flight: the controller's own image is ahead of the committed one. A reply is sent when
its records are committed and applied on this node, so that a client can use a topic once it is created.

When the leadership of the quorum ends, the next leader may or may not commit what was appended. Waiting
commands fail with NotController, and their senders retry there.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.broker.hosting.host import MachineHost
from ottla.machines.outcome import Outcome, Reply
from ottla.protocol.errors import ErrorCode
from ottla.storage.errors import DiskFull, StorageError

if TYPE_CHECKING:
    from ottla.broker.hosting.machine_log import Producer
    from ottla.broker.metadata.raft_driver import RaftDriver
    from ottla.controller.context import Context
    from ottla.controller.controller import Controller
    from ottla.controller.image.cluster import ClusterImage

QUEUE_MAX = 1000
GROUP_MAX = 64  # commands that share one append

log = logging.getLogger("ottla.controller")

# The controller's context, the monotonic time, the offset of the decision's first record.
Decide: TypeAlias = Callable[["Context", int, int], Outcome[Reply]]


class NotController(Exception):
    """This node does not run the active controller, or not any more."""


class QuorumLog:
    """The metadata log as a `MachineLog`. What counts as committed is what this node has applied."""

    __slots__ = ("_epoch", "_quorum", "committed_offset")

    def __init__(self, quorum: RaftDriver, epoch: int) -> None:
        self._quorum = quorum
        self._epoch = epoch
        self.committed_offset = 0

    @property
    def end_offset(self) -> int:
        return self._quorum.log.end_offset

    def append(self, records: list[Any], producer: Producer | None) -> None:
        self._quorum.append(records, self._epoch)

    def when_committed(
        self, offset: int, committed: Callable[[], None], failed: Callable[[BaseException], None]
    ) -> None:
        """Nothing to do: `ControllerLoop.applied` is called for every change."""


class _Command:
    """A `PendingRequest` whose refusal is an exception."""

    __slots__ = ("decide", "future")

    def __init__(self, decide: Decide, future: asyncio.Future[Any]) -> None:
        self.decide = decide
        self.future = future

    def answer(self, reply: Any, /) -> None:
        if not self.future.done():
            self.future.set_result(reply)

    def refuse(self, code: ErrorCode, /) -> None:
        self.fail(NotController("the controller has moved"))

    def fail(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class ControllerLoop:
    """The controller of one epoch of the quorum."""

    def __init__(
        self,
        controller: Controller,
        quorum: RaftDriver,
        epoch: int,
        *,
        monotonic_ms: Callable[[], int],
        committed_image: Callable[[], ClusterImage],
    ) -> None:
        self.epoch = epoch
        self.unclean_elections = 0
        self._controller = controller
        self._quorum = quorum
        self._monotonic_ms = monotonic_ms
        self._committed_image = committed_image
        self._log = QuorumLog(quorum, epoch)
        self._host = MachineHost(
            self._log,
            monotonic_ms=monotonic_ms,
            on_append_error=self._append_failed,
            on_commit_error=lambda error: None,
            on_effects=lambda effects: None,
        )
        self._queue: deque[_Command] = deque()
        self._scheduled = False
        self._ended = False
        self._rolling_back = False  # until what was appended is committed

    def submit(self, decide: Decide[Reply]) -> asyncio.Future[Reply]:
        """Return a future of the reply to a command."""
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        command = _Command(decide, future)
        if self._ended:
            command.fail(NotController("the controller has moved"))
        elif len(self._queue) >= QUEUE_MAX:
            command.fail(NotController(f"{QUEUE_MAX} commands are waiting"))
        else:
            self._queue.append(command)
            self._schedule()
        return future

    def applied(self, offset: int) -> None:
        """Everything below `offset` is committed, and applied on this node."""
        self._log.committed_offset = offset
        self._host.release()
        if self._rolling_back and self._host.is_idle:
            self._roll_back()

    def end(self) -> None:
        """The leadership is over: fail all waiting commands."""
        self._ended = True
        queue, self._queue = self._queue, deque()
        for command in queue:
            command.refuse(ErrorCode.NOT_CONTROLLER)
        self._host.close(ErrorCode.NOT_CONTROLLER)

    # -- internal

    def _schedule(self) -> None:
        if not self._scheduled and not self._rolling_back:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._decide_group)

    def _decide_group(self) -> None:
        """Decide the waiting commands, and append their records together."""
        self._scheduled = False
        if self._ended or self._rolling_back:
            return
        queue = self._queue
        group = [queue.popleft() for _ in range(min(GROUP_MAX, len(queue)))]
        if queue:
            self._schedule()
        next_offset = self._log.end_offset
        for command in group:
            now_ms = self._monotonic_ms()
            try:
                outcome = command.decide(self._controller.context, now_ms, next_offset)
                self._controller.apply(outcome.records)
            except Exception as error:
                log.exception("command failed")
                command.fail(error)
                continue
            next_offset += len(outcome.records)
            self._report_unclean(outcome)
            self._host.add(outcome, command)
        self._host.flush()

    def _report_unclean(self, outcome: Outcome) -> None:
        """Log at the append, not at the commit: the next controller may commit it and would not log it."""
        effects, outcome.effects = outcome.effects, []
        for election in effects:
            self.unclean_elections += 1
            text = "unclean election, acknowledged records may be lost: partition=%s-%d leader=%d epoch=%d"
            log.error(text, *election)

    def _append_failed(self, error: Exception) -> None:
        """Handle a failed append: the group is in the controller's image, but not in the log."""
        for command in self._host.drop_unwritten():
            command.fail(error if isinstance(error, StorageError) else NotController(str(error)))
        if isinstance(error, DiskFull):
            # Later commands may succeed, and build on the committed image.
            log.error("metadata not written: %s", error)
            self._rolling_back = True
            if self._host.is_idle:
                self._roll_back()
        elif isinstance(error, StorageError):
            log.error("controller resigns: %s", error)
            self._quorum.resign(self.epoch)

    def _roll_back(self) -> None:
        self._rolling_back = False
        self._controller.roll_back_to(self._committed_image())
        if self._queue:
            self._schedule()
