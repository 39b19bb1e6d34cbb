"""Runs the Raft machine: events in from peers, timers and disk, effects out in order.

One task steps the machine and carries out the effects of each step before the next. Requests to peers and
flushes run in other tasks, and their results come back as events.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Any

from ottla.broker.background import BackgroundTasks
from ottla.broker.hosting.machine_log import NotLeader
from ottla.broker.net.peer import Peer, PeerLost
from ottla.protocol.api import API_BY_KEY
from ottla.protocol.message import Message
from ottla.protocol.messages.describe_quorum_response import DescribeQuorumResponse
from ottla.quorum.errors import QuorumError
from ottla.quorum.quorum_state import QuorumState
from ottla.quorum.raft import effects as do
from ottla.quorum.raft import events
from ottla.quorum.raft.config import RaftConfig, RaftState
from ottla.quorum.raft.describe import add_to_timestamps
from ottla.quorum.raft.machine import LEADER, RaftMachine
from ottla.quorum.raft.voters import Endpoint
from ottla.quorum.raft_log import RaftLog
from ottla.storage.errors import DiskFull, StorageError

log = logging.getLogger("ottla.raft")

IDLE_WAKE_MS = 1000
FULL_DISK_RETRY_MS = 200
# Errors whose message says enough, without a traceback.
EXPLAINED = (StorageError, QuorumError)


class RaftListener:
    """Events of the quorum, in order, from the driver's task."""

    def became_leader(self, epoch: int, start_offset: int) -> None: ...

    def lost_leadership(self, epoch: int) -> None: ...

    def leader_changed(self, leader_id: int, epoch: int, endpoint: Endpoint | None) -> None: ...

    def committed(self, offset: int) -> None: ...

    def snapshot_installed(self) -> None: ...


class RaftDriver:
    """`clock` is the wall clock, for the timestamps of records. The machine gets monotonic time."""

    def __init__(
        self,
        raft_log: RaftLog,
        config: RaftConfig,
        listener: RaftListener,
        *,
        executor: Executor,
        clock: Callable[[], int],
        monotonic_ms: Callable[[], int],
        draw: Callable[[int], int],
        tasks: BackgroundTasks,
    ) -> None:
        self.log = raft_log
        self._config = config
        self._listener = listener
        self._executor = executor
        self._clock = clock
        self._monotonic_ms = monotonic_ms
        self._draw = draw
        self._background = tasks
        self._events: deque[events.Event] = deque()
        self._wake = asyncio.Event()
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._next_token = 0
        self._peers: dict[Endpoint, Peer] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order in which they began
        self._jobs: dict[asyncio.Future[None], None] = {}  # running in other threads
        self._flushing = False
        self._full_disk: DiskFull | None = None
        self._ready_to_end = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.machine: RaftMachine

    # -- life cycle

    def start(self) -> None:
        voters = self.log.voter_history(self._config.static_voters)
        alone = set(voters.voters.by_id) == {self._config.node_id}
        state = RaftState(self.log.quorum_state(alone=alone), voters)
        self.machine = RaftMachine(self._config, self.log, state, self._monotonic_ms(), self._draw)
        self._post(events.Tick())
        # A node that continues without its quorum would neither serve nor be replaced.
        self._task = self._background.keep_running("raft", self._run, fatal=True, explained=EXPLAINED)
        self._flush()

    async def stop(self, *, hand_over_ms: int = 0) -> None:
        """Stop; a leader first tries to hand over, for at most that time."""
        if self._task is None:
            return
        if hand_over_ms > 0 and not self._task.done():
            self._post(events.Shutdown())
            try:
                await asyncio.wait_for(self._ready_to_end.wait(), hand_over_ms / 1000)
            except TimeoutError:
                log.info("the quorum was not handed over within %d ms", hand_over_ms)
        tasks = [self._task, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        if self._jobs:
            await asyncio.wait(list(self._jobs))  # they own files, which the next start opens
        for peer in self._peers.values():
            peer.close()
        for future in self._waiting.values():
            future.cancel()
        self._waiting.clear()

    # -- requests

    @property
    def is_leader(self) -> bool:
        return self.machine.role == LEADER

    def request(self, message: Message) -> asyncio.Future[Message]:
        """Handle a request of another node; returns a future of the response."""
        token = self._next_token
        self._next_token += 1
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[token] = future
        future.add_done_callback(lambda done: self._answered(token, done))
        self._post(events.RequestReceived(token, message))
        return future

    def append(self, messages: Iterable[Message], epoch: int) -> int:
        """Append records as the leader of `epoch`; returns the last offset, which may be committed later."""
        if self.machine.role != LEADER or self.machine.epoch != epoch:
            raise NotLeader(f"epoch {epoch} is over")
        if self._full_disk is not None:
            raise self._full_disk  # a batch of the machine waits for space, and its offset is fixed
        self.log.epoch = epoch
        _, last_offset = self.log.append(messages, self._clock())
        self._post(events.LocalAppended())
        self._flush()
        return last_offset

    def resign(self, epoch: int) -> None:
        """Resign: the controller of `epoch` cannot continue."""
        self._post(events.Resign(epoch))

    # -- the task

    def _post(self, event: events.Event) -> None:
        self._events.append(event)
        self._wake.set()

    def _answered(self, token: int, future: asyncio.Future[Message]) -> None:
        if self._waiting.pop(token, None) is not None and future.cancelled():
            self._post(events.RequestAbandoned(token))

    async def _run(self) -> None:
        while True:
            while self._events:
                await self._step(self._events.popleft())
            self._wake.clear()
            wake_ms = self.machine.next_wake_ms
            wait_ms = IDLE_WAKE_MS if wake_ms is None else wake_ms - self._monotonic_ms()
            if wait_ms > 0 and not self._events:
                await self._sleep(wait_ms)
            if not self._events:
                self._events.append(events.Tick())

    async def _sleep(self, wait_ms: int) -> None:
        """Wait for an event, at most that long. (asyncio.wait_for may lose a cancellation.)"""
        timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    async def _step(self, event: events.Event) -> None:
        for effect in self.machine.step(event, self._monotonic_ms()):
            while True:
                try:
                    await self._perform(effect)
                    break
                except DiskFull as error:
                    if type(effect) not in _RETRIED:
                        raise
                    await self._wait_for_space(effect, error)
            self._full_disk = None

    async def _wait_for_space(self, effect: do.Effect, error: DiskFull) -> None:
        """Retry an effect that failed without a partial result until there is space. Until then it sends and
        acknowledges nothing, as if it were partitioned off; it continues to serve clients."""
        if self._full_disk is None:
            log.error("metadata waits for disk space: effect=%s error=%s", type(effect).__name__, error)
        self._full_disk = error
        await asyncio.sleep(FULL_DISK_RETRY_MS / 1000)

    async def _perform(self, effect: do.Effect) -> None:
        kind = type(effect)
        if kind is do.Persist:
            await self._persist(effect.state)  # type: ignore[attr-defined]
        elif kind is do.InstallSnapshot:
            self._install(effect.snapshot_id)  # type: ignore[attr-defined]
        else:
            _PERFORM[kind](self, effect)

    async def _persist(self, state: QuorumState) -> None:
        await self._in_thread(self.log.persist, state)

    async def _in_thread(self, work: Callable[..., None], *arguments: object) -> None:
        job = asyncio.get_running_loop().run_in_executor(self._executor, work, *arguments)
        self._jobs[job] = None
        job.add_done_callback(self._job_done)
        await asyncio.shield(job)

    def _job_done(self, job: asyncio.Future[None]) -> None:
        del self._jobs[job]
        if not job.cancelled():
            job.exception()  # retrieved, so that it is not logged when there is no waiter after the stop

    def _send(self, effect: do.Send) -> None:
        self._keep(self._background.run_once("raft-request", self._call(effect)))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None) and None)

    async def _call(self, effect: do.Send) -> None:
        peer = self._peers.get(effect.endpoint)
        if peer is None:
            name = f"raft-{self._config.node_id}"
            peer = self._peers[effect.endpoint] = Peer(effect.endpoint.host, effect.endpoint.port, name)
        response_class = API_BY_KEY[effect.request.API_KEY].response_class()
        timeout_ms = self._config.request_timeout_ms
        try:
            response = await peer.call(effect.request, response_class, timeout_ms=timeout_ms)
        except PeerLost as lost:
            self._post(events.RequestFailed(effect.request_id, disconnected=lost.disconnected))
        except Exception:
            log.exception("request failed: peer=%s", peer)
            self._post(events.RequestFailed(effect.request_id))
        else:
            self._post(events.ResponseReceived(effect.request_id, response))

    def _reply(self, token: object, response: Message) -> None:
        future = self._waiting.get(token) if isinstance(token, int) else None
        if future is not None and not future.done():
            if isinstance(response, DescribeQuorumResponse):
                add_to_timestamps(response, self._clock() - self._monotonic_ms())
            future.set_result(response)

    def _reply_with_records(self, effect: do.ReplyWithRecords) -> None:
        partition = effect.response.responses[0].partitions[0]
        partition.records = self.log.records_from(effect.offset, effect.max_bytes)
        self._reply(effect.token, effect.response)

    def _reply_with_snapshot(self, effect: do.ReplyWithSnapshot) -> None:
        partition = effect.response.topics[0].partitions[0]
        partition.unaligned_records = self.log.snapshot_part(
            effect.snapshot_id, effect.position, effect.max_bytes
        )
        self._reply(effect.token, effect.response)

    def _append_control(self, effect: do.AppendControl) -> None:
        self.log.append_control(effect.batch, effect.epoch, self._clock())
        self._flush()

    def _append_fetched(self, effect: do.AppendFetched) -> None:
        self.log.append_fetched(effect.records, self._clock())
        self._flush()

    def _truncate(self, effect: do.Truncate) -> None:
        log.info("metadata log truncated: from=%d to=%d", self.log.end_offset, effect.offset)
        self.log.log.truncate_to(effect.offset)

    def _install(self, snapshot_id: Any) -> None:
        try:
            kraft_version, voters = self.log.install_snapshot(snapshot_id)
        except QuorumError as error:
            log.error("snapshot of the leader cannot be used: %s", error)
            self._post(events.SnapshotFailed())
            return
        self._listener.snapshot_installed()
        self._post(events.SnapshotInstalled(snapshot_id, kraft_version=kraft_version, voters=voters))

    # -- the disk

    def _flush(self) -> None:
        """Flush what is appended, one flush at a time."""
        if not self._flushing and self.log.flushed_offset < self.log.end_offset:
            self._flushing = True
            self._keep(self._background.run_once("raft-flush", self._flush_all()))

    async def _flush_all(self) -> None:
        try:
            while self.log.flushed_offset < self.log.end_offset:
                job = self.log.log.begin_flush()
                await self._in_thread(job.run)
                self.log.log.finish_flush(job, self._clock())
                self._post(events.Flushed())
        except Exception as error:
            self._background.fatal("raft-flush", error, EXPLAINED)
        finally:
            self._flushing = False


def _perform_table() -> dict[type[do.Effect], Callable[[RaftDriver, Any], None]]:
    return {
        do.Send: RaftDriver._send,
        do.Reply: lambda driver, effect: driver._reply(effect.token, effect.response),
        do.ReplyWithRecords: RaftDriver._reply_with_records,
        do.ReplyWithSnapshot: RaftDriver._reply_with_snapshot,
        do.AppendControl: RaftDriver._append_control,
        do.AppendFetched: RaftDriver._append_fetched,
        do.Truncate: RaftDriver._truncate,
        do.BeginSnapshot: lambda driver, effect: driver.log.begin_snapshot(effect.snapshot_id),
        do.WriteSnapshot: lambda driver, effect: driver.log.write_snapshot(
            effect.snapshot_id, effect.position, effect.data
        ),
        do.BecameLeader: lambda driver, e: driver._listener.became_leader(e.epoch, e.start_offset),
        do.LostLeadership: lambda driver, e: driver._listener.lost_leadership(e.epoch),
        do.LeaderChanged: lambda driver, e: driver._listener.leader_changed(e.leader_id, e.epoch, e.endpoint),
        do.HighWatermark: lambda driver, e: driver._listener.committed(e.offset),
        do.VotersChanged: lambda driver, e: log.info("voters: %s", e.voters),
        do.ShutdownReady: lambda driver, e: driver._ready_to_end.set(),
    }


_PERFORM = _perform_table()
# Effects without partial results when they fail. After a failure of any other, only a restart is safe.
_RETRIED = (do.Persist, do.AppendControl, do.AppendFetched, do.WriteSnapshot)
