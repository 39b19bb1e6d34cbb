"""Applies committed metadata on this node, in order, once.

Until `go_live` records only change the image: a starting broker first catches up, then opens its logs. From
then on `MetadataPublisher` also makes the partitions follow.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.background import cancel
from ottla.controller.features import unsupported_features
from ottla.quorum.errors import QuorumError
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.background import BackgroundTasks
    from ottla.broker.metadata.controller_host import ControllerHost
    from ottla.broker.metadata.publisher import MetadataPublisher
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.protocol.message import Message
    from ottla.quorum.raft_log import RaftLog

RECORDS_PER_STEP = 1000  # applied together; a change of thousands of partitions takes many steps

log = logging.getLogger("ottla.metadata")


class MetadataApplier:
    def __init__(
        self,
        metadata: MetadataCache,
        publisher: MetadataPublisher,
        controllers: ControllerHost,
        tasks: BackgroundTasks,
    ) -> None:
        self._metadata = metadata
        self._publisher = publisher
        self._controllers = controllers
        self._tasks = tasks
        self.applied_offset = 0  # everything below is applied
        self._committed_offset = 0
        self._is_live = False
        self._snapshot_pending = False
        self._work = asyncio.Event()
        self._apply_waiter: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    # -- life cycle

    def start(self, raft_log: RaftLog) -> None:
        self._snapshot_pending = raft_log.latest_snapshot is not None
        self._work.set()
        self._task = self._tasks.keep_running(
            "metadata", lambda: self._apply_all(raft_log), fatal=True, explained=(StorageError, QuorumError)
        )

    async def stop(self) -> None:
        await cancel(self._task)

    def go_live(self) -> None:
        """From now on the partitions of this node follow the applied metadata."""
        self._is_live = True

    # -- waiting

    async def wait_applied(self, offset: int) -> None:
        """Return when the record at `offset` is applied."""
        while self.applied_offset <= offset:
            await asyncio.wait([self._next_apply()])  # one cancelled waiter must not cancel the others

    async def wait_until(self, condition: Callable[[], bool], timeout_ms: int) -> bool:
        """Wait until the applied metadata satisfy the condition; False on a timeout."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while not condition():
            left = deadline - loop.time()
            if left <= 0:
                return False
            await asyncio.wait([self._next_apply()], timeout=left)
        return True

    def _next_apply(self) -> asyncio.Future[None]:
        if self._apply_waiter is None:
            self._apply_waiter = asyncio.get_running_loop().create_future()
        return self._apply_waiter

    # -- events of the quorum

    def committed(self, offset: int) -> None:
        self._committed_offset = offset
        self._work.set()

    def snapshot_installed(self) -> None:
        self._snapshot_pending = True
        self._work.set()

    def wake(self) -> None:
        """Repeat the reports to the controller host: this node has become the leader of the quorum."""
        self._work.set()

    # -- applying

    async def _apply_all(self, raft_log: RaftLog) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            while self._snapshot_pending or self.applied_offset < self._committed_offset:
                if self._snapshot_pending:
                    await self._apply_snapshot(raft_log)
                else:
                    await self._apply_some(raft_log)
            self._controllers.caught_up(self.applied_offset)

    async def _apply_some(self, raft_log: RaftLog) -> None:
        """Apply a bounded number of batches; they are read before the log can change."""
        records: list[Message] = []
        end_offset = self.applied_offset
        for next_offset, messages in raft_log.committed(self.applied_offset, self._committed_offset):
            records += messages
            end_offset = next_offset
            if len(records) >= RECORDS_PER_STEP:
                break
        assert end_offset > self.applied_offset, "committed records can be read"
        if not self._is_live:
            for record in records:
                self._publisher.replay(record, end_offset - 1)
            await asyncio.sleep(0)  # a long log must not delay responses to the other voters
        elif records:
            await self._publisher.publish(records, end_offset - 1)
        self._moved_to(end_offset)

    async def _apply_snapshot(self, raft_log: RaftLog) -> None:
        """Replace the image by the newest snapshot."""
        self._snapshot_pending = False
        snapshot = raft_log.latest_snapshot
        assert snapshot is not None
        if snapshot.end_offset <= self.applied_offset:
            return
        records = list(raft_log.snapshot_messages(snapshot))
        if self._is_live:
            await self._publisher.publish_snapshot(records, snapshot.end_offset - 1)
        else:
            self._publisher.reset()
            for record in records:
                self._publisher.replay(record, snapshot.end_offset - 1)
        self._moved_to(snapshot.end_offset)

    def _moved_to(self, offset: int) -> None:
        problems = unsupported_features(self._metadata.image.features)
        if problems:
            raise QuorumError(f"this version cannot take part in the cluster: {'; '.join(problems)}")
        self.applied_offset = offset
        self._controllers.applied(offset)
        waiter, self._apply_waiter = self._apply_waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
