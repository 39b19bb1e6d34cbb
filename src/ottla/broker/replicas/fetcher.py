"""Copying partitions from one leader broker: one connection, one fetch plan, many partitions.

`FetchPlan` and `FollowerState` decide what to request and what a response means. This module sends the
requests and applies the responses to the logs. It uses no CPU while idle: the leader holds the request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.broker.net.peer import PeerConnection
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_response import FetchResponse, PartitionData
from ottla.records.batch import CorruptBatch, RecordsError
from ottla.replication.fetch_plan import FetchLimits, FetchPlan, PlannedPartition
from ottla.replication.follower import (
    APPEND,
    AdvanceLogStart,
    Instruction,
    ListLeaderOffsets,
    TruncateFullyAndStartAt,
    TruncateTo,
)
from ottla.storage.errors import DiskFull, OffsetOutOfRange, StorageError, UnexpectedAppendOffset

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.background import BackgroundTasks
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.replicas.fetch_counters import FetchCounters
    from ottla.broker.replicas.flusher import Flusher
    from ottla.broker.replicas.partition import Partition
    from ottla.config.load import BrokerConfig
    from ottla.protocol.messages.list_offsets_response import ListOffsetsResponse
    from ottla.replication.throttle import ReplicationQuota

log = logging.getLogger("ottla.replicas")

STEP_MAX_BYTES = 2 * 1024 * 1024  # appended before the event loop continues
CONNECT_TIMEOUT_MS = 2000
EARLIEST, LATEST = -2, -1

_Key = tuple[bytes, int]


class ReplicaFetcher:
    def __init__(
        self,
        leader_id: int,
        config: BrokerConfig,
        identity: NodeIdentity,
        flusher: Flusher,
        clock: Callable[[], int],
        quota: ReplicationQuota,
        counters: FetchCounters,
        tasks: BackgroundTasks,
    ) -> None:
        self.leader_id = leader_id
        self._identity = identity
        self._flusher = flusher
        self._clock = clock
        self._counters = counters
        self._tasks = tasks
        limits = FetchLimits(
            max_wait_ms=config.get_int("replica.fetch.wait.max.ms"),
            min_bytes=config.get_int("replica.fetch.min.bytes"),
            max_bytes=config.get_int("replica.fetch.response.max.bytes"),
            partition_max_bytes=config.get_int("replica.fetch.max.bytes"),
            backoff_ms_max=config.get_int("replica.fetch.backoff.ms"),
        )
        self.plan = FetchPlan(identity.node_id, identity.broker_epoch, limits, quota)
        self._partitions: dict[_Key, Partition] = {}
        self._address: tuple[str, int] | None = None
        self._leader_broker_epoch = -1
        self._link: PeerConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._poll_due: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timeout_ms = config.get_int("replica.socket.timeout.ms")
        self._responses_seen = -1
        self._watchdog: asyncio.TimerHandle | None = None
        self._applying = False  # a response is being applied
        self.is_refused = False  # the last connection attempt was refused
        self._running = False

    def __len__(self) -> int:
        return len(self.plan)

    # -- life cycle

    def start(self) -> None:
        self._running = True
        self.poll_soon()

    def stop(self) -> None:
        """Stop fetching; a late response is ignored."""
        self._running = False
        for handle in (self._poll_due, self._timer, self._watchdog):
            if handle is not None:
                handle.cancel()
        self._poll_due = self._timer = self._watchdog = None
        if self._connecting is not None:
            self._connecting.cancel()
        if self._link is not None:
            self._link.close()

    def move_to(self, address: tuple[str, int] | None, leader_broker_epoch: int) -> None:
        """Set the leader's address, None while it is not registered, and its incarnation."""
        if (address, leader_broker_epoch) != (self._address, self._leader_broker_epoch):
            self._address = address
            self._leader_broker_epoch = leader_broker_epoch
            self.is_refused = False
            self.plan.end_pause()
            if self._connecting is not None:
                self._connecting.cancel()
                self._connecting = None
            if self._link is not None:
                self._link.close()
            self.poll_soon()

    # -- which partitions

    def follow(self, partition: Partition, throttled: bool) -> None:
        """Copy a partition from this leader; call again after its FollowerState has changed."""
        key = (partition.topic_id, partition.index)
        follower = partition.follower
        assert follower is not None
        if self._partitions.get(key) is partition and self.plan.is_following(*key, follower):
            self.plan.touch(*key)
        else:
            self._partitions[key] = partition
            self.plan.add(*key, follower)
        self.plan.set_throttled(*key, throttled)
        self.poll_soon()

    def unfollow(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.index)
        if self._partitions.pop(key, None) is not None:
            self.plan.remove(*key)
            if not self._partitions and self._link is not None:
                self._link.close()  # nothing to fetch: free the session at the leader

    def touch(self, partition: Partition) -> None:
        self.plan.touch(partition.topic_id, partition.index)
        self.poll_soon()

    def poll_soon(self) -> None:
        """Check soon whether there is something to request."""
        if self._running and self._poll_due is None:
            loop = asyncio.get_running_loop()
            self._poll_due = loop.call_soon(
                self._tasks.guard, f"replica-fetch-{self.leader_id}", self._poll, self._reconnect
            )

    # -- requests

    def _poll(self) -> None:
        self._poll_due = None
        if not self._running or self._applying:
            return  # checks again after the response is applied
        try:
            self._request_all()
        except Exception:
            log.exception("fetch not sent: leader=%d", self.leader_id)
            self._start_over()

    def _request_all(self) -> None:
        """Send what is due, or connect first."""
        link, now_ms = self._link, self._clock()
        if link is None:
            if len(self.plan) and self._connecting is None and self._address is not None:
                wake_at_ms = self.plan.paused_until_ms
                if now_ms < wake_at_ms:
                    self._wake_at(wake_at_ms, now_ms)
                else:
                    self._connecting = self._tasks.run_once("replica-connect", self._connect(self._address))
            return
        self.plan.broker_epoch = self._identity.broker_epoch
        while (request := self.plan.next_request(now_ms)) is not None:
            link.send(request, FetchResponse, self._fetched)
            self._watch()
        # A fetch in flight returns before the next partition is due.
        self._wake_at(None if self.plan.in_flight else self.plan.wake_at_ms(now_ms), now_ms)

    def _start_over(self) -> None:
        """After a defect: reconnect with a new session, after a pause that grows."""
        if self._link is not None:
            self._link.close()
        else:
            now_ms = self._clock()
            self.plan.failed(now_ms)
            self._wake_at(self.plan.paused_until_ms, now_ms)

    def _wake_at(self, at_ms: int | None, now_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at_ms is not None:
            delay_ms = max(1, at_ms - now_ms)
            self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._timer_due)

    def _timer_due(self) -> None:
        self._timer = None
        self.poll_soon()

    def _reconnect(self) -> None:
        """Begin again with a new connection and a new session: a failed poll may have left half a request."""
        if self._link is not None:
            self._link.close()
        self.poll_soon()

    async def _connect(self, address: tuple[str, int]) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        timer = loop.call_later(CONNECT_TIMEOUT_MS / 1000, task.cancel)
        link: PeerConnection | None = None
        try:
            client_id = f"ottla-replica-{self._identity.node_id}"
            _, link = await loop.create_connection(lambda: PeerConnection(client_id, self._lost), *address)
            self.is_refused = False
        except OSError as error:
            self.is_refused = isinstance(error, ConnectionRefusedError)
            log.debug("leader not reached: leader=%d at %s:%d: %s", self.leader_id, *address, error)
        finally:
            timer.cancel()
            if self._connecting is task:
                self._connecting = None
                if link is None:
                    self.plan.failed(self._clock())
                else:
                    self._link = link
                self.poll_soon()
            elif link is not None:
                link.close()

    def _lost(self, link: PeerConnection) -> None:
        if self._link is link:
            self._link = None
            self._applying = False
            self.plan.failed(self._clock())
            # Requests for single partitions were lost with it.
            for entry in list(self.plan.partitions()):
                entry.follower.connection_lost(self._clock())
                self.plan.touch(entry.topic_id, entry.partition)
            self.poll_soon()

    def _watch(self) -> None:
        """Close the connection if the leader sends nothing for replica.socket.timeout.ms."""
        if self._watchdog is None:
            assert self._link is not None
            self._responses_seen = self._link.responses
            loop = asyncio.get_running_loop()
            self._watchdog = loop.call_later(self._timeout_ms / 1000, self._check_progress, self._link)

    def _check_progress(self, link: PeerConnection) -> None:
        self._watchdog = None
        if self._link is not None and self._link.is_waiting:
            if link is self._link and link.responses == self._responses_seen:
                log.warning("leader does not respond: leader=%d", self.leader_id)
                link.close()
            else:
                self._watch()

    # -- responses

    def _fetched(self, response: FetchResponse) -> Iterator[None]:
        """Apply a response, a few megabytes per iteration of the event loop.

        Unexpected exceptions end here: in a later step nothing would resume the fetcher.
        """
        try:
            entries = self.plan.answered(response, self._clock())
        except Exception:
            log.exception("response not applied: leader=%d", self.leader_id)
            self._start_over()
            return
        link = self._link
        if response.error_code and link is not None and link.is_waiting:
            link.close()  # later responses belong to the same lost session
            return
        self._applying = True
        step_bytes = 0
        for entry, data in entries:
            if step_bytes >= STEP_MAX_BYTES:
                step_bytes = 0
                yield
            if self.plan.has(entry) and entry.request_is_current:
                step_bytes += len(data.records) if data.records else 0
                try:
                    self._apply(entry, data)
                except Exception:
                    self._stop_partition(entry)
        self._applying = False
        self._poll()

    def _stop_partition(self, entry: PlannedPartition) -> None:
        """Leave a partition out after a defect, until it gets a new leader: its log may be half changed, and
        the leader must not count it as in sync. Called in an exception handler."""
        partition = self._partitions.get((entry.topic_id, entry.partition))
        log.exception("replica stopped: partition=%s leader=%d", partition, self.leader_id)
        entry.follower.append_failed(ErrorCode.UNKNOWN_SERVER_ERROR, self._clock())
        self.plan.touch(entry.topic_id, entry.partition)

    def _apply(self, entry: PlannedPartition, data: PartitionData) -> None:
        """Apply the response for one partition to its log."""
        partition = self._partitions[entry.topic_id, entry.partition]
        follower, plog, now_ms = entry.follower, partition.log, self._clock()
        step = follower.answered(data, now_ms)
        if step is not APPEND:
            if data.error_code:
                log.debug("fetch refused: %s error=%d then=%s", partition, data.error_code, step)
            self._carry_out(partition, entry, step)
            return
        grew = False
        if data.records:
            try:
                result = plog.append_as_follower(data.records, now_ms)
                grew = result.last_offset >= result.first_offset
            except (RecordsError, CorruptBatch, UnexpectedAppendOffset, StorageError) as error:
                log.error("replica not written: partition=%s-%d: %s", partition.topic, partition.index, error)
                code = getattr(error, "code", ErrorCode.CORRUPT_MESSAGE)
                follower.append_failed(code, now_ms, is_retriable=isinstance(error, DiskFull))
                return
            self._counters.bytes_in += len(data.records)
        next_step = follower.appended(data.high_watermark, data.log_start_offset)
        if partition.high_watermark != follower.high_watermark:
            partition.commit(follower.high_watermark)
        if next_step is not None:
            self._carry_out(partition, entry, next_step)
        if grew and plog.config.has_flush_policy and self._flusher.after_append(partition):
            follower.wait_for_flush()

    def _carry_out(self, partition: Partition, entry: PlannedPartition, step: Instruction) -> None:
        plog, follower = partition.log, entry.follower
        try:
            if isinstance(step, TruncateTo):
                end_offset = plog.log_end_offset
                if plog.truncate_to(step.offset):
                    self._truncated(partition, end_offset)
            elif isinstance(step, TruncateFullyAndStartAt):
                end_offset = plog.log_end_offset
                plog.truncate_fully_and_start_at(step.offset)
                self._truncated(partition, end_offset)
            elif isinstance(step, AdvanceLogStart):
                plog.advance_log_start_offset(step.offset)
            elif isinstance(step, ListLeaderOffsets):
                self._list_leader_offsets(partition, entry, step)
        except (StorageError, OffsetOutOfRange) as error:
            log.error("replica not changed: partition=%s-%d: %s", partition.topic, partition.index, error)
            full = isinstance(error, DiskFull)
            follower.append_failed(ErrorCode.KAFKA_STORAGE_ERROR, self._clock(), is_retriable=full)
        partition.follow_high_watermark()

    def _truncated(self, partition: Partition, end_offset_before: int) -> None:
        log.info(
            "truncated: partition=%s-%d from=%d to=%d leader=%d epoch=%d",
            partition.topic,
            partition.index,
            end_offset_before,
            partition.log.log_end_offset,
            self.leader_id,
            partition.leader_epoch,
        )
        self._counters.truncations += 1

    # -- requests for single partitions

    def _list_leader_offsets(
        self, partition: Partition, entry: PlannedPartition, step: ListLeaderOffsets
    ) -> None:
        """Request the start and end of the leader's log; no request may name a partition twice."""
        from ottla.protocol.messages.list_offsets_request import (
            ListOffsetsPartition,
            ListOffsetsRequest,
            ListOffsetsTopic,
        )
        from ottla.protocol.messages.list_offsets_response import ListOffsetsResponse

        assert self._link is not None
        found: list[tuple[int, int]] = []  # error, offset

        def take(response: ListOffsetsResponse) -> None:
            try:
                data = response.topics[0].partitions[0]
                found.append((data.error_code, data.offset))
                if len(found) == 2 and self._is_current(partition, entry, step):
                    (first_error, start_offset), (second_error, end_offset) = found
                    answered = entry.follower.offsets_answered(
                        first_error or second_error, start_offset, end_offset, self._clock()
                    )
                    self._carry_out(partition, entry, answered)
                    self.touch(partition)
            except Exception:
                self._stop_partition(entry)

        for timestamp in (EARLIEST, LATEST):
            wanted = ListOffsetsPartition(
                partition_index=partition.index, current_leader_epoch=step.leader_epoch, timestamp=timestamp
            )
            topic = ListOffsetsTopic(name=partition.topic, partitions=[wanted])
            request = ListOffsetsRequest(replica_id=self._identity.node_id, topics=[topic])
            self._link.send(request, ListOffsetsResponse, take)

    def _is_current(self, partition: Partition, entry: PlannedPartition, step: ListLeaderOffsets) -> bool:
        return (
            self.plan.has(entry)
            and entry.follower.leader_epoch == step.leader_epoch
            and not partition.deleted
        )
