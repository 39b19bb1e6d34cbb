"""ISR changes in flight to the controller: one AlterPartition request at a time, with all pending changes.

An entry is the change that a partition's `LeaderState` holds as pending, until the controller has answered. A
change whose outcome is unknown is sent again after a pause.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.broker.background import cancel
from ottla.protocol.errors import ErrorCode
from ottla.replication.isr_change import IsrChange, alter_partition_request
from ottla.replication.leader import RETRY_ISR_CHANGE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, Protocol

    from ottla.broker.background import BackgroundTasks
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.replicas.partition import Partition
    from ottla.protocol.message import Message
    from ottla.protocol.messages.alter_partition_response import AlterPartitionResponse, PartitionData
    from ottla.replication.leader import LeaderState

    class AskController(Protocol):
        """Send a request to the active controller; `ControllerChannel.ask`."""

        def __call__(self, message: Message, *, timeout_ms: int | None = None) -> Awaitable[Any]: ...


log = logging.getLogger("ottla.replicas")

PARTITIONS_MAX = 1000  # of one request
RETRY_PAUSE_MS = 50
REQUEST_TIMEOUT_MS = 5000

_Proposal = tuple["LeaderState", IsrChange]


class IsrChanges:
    def __init__(
        self, identity: NodeIdentity, clock: Callable[[], int], ask: AskController, tasks: BackgroundTasks
    ) -> None:
        self._identity = identity
        self._clock = clock
        self._ask = ask
        self._tasks = tasks
        self._waiting: dict[Partition, _Proposal] = {}
        self._retry: dict[Partition, _Proposal] = {}
        self._retry_timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopped = True
        self.shrinks = 0
        self.expands = 0

    def start(self) -> None:
        self._stopped = False
        self._send_soon()

    async def stop(self) -> None:
        self._stopped = True
        if self._retry_timer is not None:
            self._retry_timer.cancel()
        await cancel(self._task)

    def propose(self, partition: Partition) -> None:
        """Send the leader's pending change, if there still is one."""
        leader = partition.leader
        if leader is None:
            return
        change = leader.isr_change_proposal(self._clock())
        if change is not None:
            self._waiting[partition] = (leader, change)
            self._send_soon()

    def _send_soon(self) -> None:
        if self._waiting and self._task is None and not self._stopped:
            self._task = self._tasks.run_to_end("isr-changes", self._send_all)

    async def _send_all(self) -> None:
        while self._waiting and not self._stopped:
            batch = {}
            for partition in list(self._waiting)[:PARTITIONS_MAX]:
                leader, change = self._waiting.pop(partition)
                if partition.leader is leader and leader.pending is change:
                    batch[partition] = (leader, change)
            if batch:
                try:
                    await self._send(batch)
                except BaseException:
                    # A change that stays pending without a request would block all later ones.
                    self._waiting = {**batch, **self._waiting}
                    raise
        self._task = None

    async def _send(self, batch: dict[Partition, _Proposal]) -> None:
        identity = self._identity
        changes = [(partition.topic_id, partition.index, change) for partition, (_, change) in batch.items()]
        request = alter_partition_request(identity.node_id, identity.broker_epoch, changes)
        error: int = ErrorCode.NONE
        results: dict[tuple[bytes, int], PartitionData] = {}
        try:
            response: AlterPartitionResponse = await self._ask(request, timeout_ms=REQUEST_TIMEOUT_MS)
        except Exception as failure:
            # The change may have been made: the retry will find out.
            log.info("ISR changes not answered: partitions=%d error=%s", len(batch), failure)
            error = ErrorCode.REQUEST_TIMED_OUT
        else:
            error = response.error_code
            for topic in response.topics:
                for data in topic.partitions:
                    results[topic.topic_id, data.partition_index] = data
        for partition, proposal in batch.items():
            self._answered(partition, proposal, error, results.get((partition.topic_id, partition.index)))

    def _answered(
        self, partition: Partition, proposal: _Proposal, error: int, data: PartitionData | None
    ) -> None:
        leader, change = proposal
        if partition.leader is not leader:
            return
        now_ms = self._clock()
        isr_before = leader.isr
        if error or data is None:
            flags = leader.alter_partition_result(change, error or ErrorCode.REQUEST_TIMED_OUT, now_ms)
        else:
            flags = leader.alter_partition_result(
                change,
                data.error_code,
                now_ms,
                leader_epoch=data.leader_epoch,
                isr=tuple(data.isr),
                partition_epoch=data.partition_epoch,
            )
        if leader.isr != isr_before:
            self.changed(partition, isr_before, leader.isr)
        if flags & RETRY_ISR_CHANGE:
            self._retry[partition] = proposal
            if self._retry_timer is None and not self._stopped:
                loop = asyncio.get_running_loop()
                self._retry_timer = loop.call_later(RETRY_PAUSE_MS / 1000, self._retry_due)
        partition.react(flags)

    def changed(self, partition: Partition, before: tuple[int, ...], after: tuple[int, ...]) -> None:
        """Count and log a change that the controller has committed."""
        removed = [node_id for node_id in before if node_id not in after]
        added = [node_id for node_id in after if node_id not in before]
        self.shrinks += bool(removed)
        self.expands += bool(added)
        log.info(
            "%s: partition=%s-%d isr=%s was=%s",
            "ISR shrinks" if removed else "ISR expands",
            partition.topic,
            partition.index,
            list(after),
            list(before),
        )

    def _retry_due(self) -> None:
        self._retry_timer = None
        self._waiting.update(self._retry)
        self._retry.clear()
        self._send_soon()
