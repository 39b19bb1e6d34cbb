"""The leader's side of replication: serving fetches of followers.

Rules:
- A requested partition is checked in this order: leader, leader epoch, log start, divergence, log end. Only
  then does the leader count everything below the fetch offset as replicated to the follower.
- After records, an error or a divergence were sent for a partition, nothing more is sent until the follower
  fetches it again.
- Appends are sent at once. A high watermark that moved alone is delayed for a moment: the next records carry
  it.
- The next fetch of a session ends the wait of the one before.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ottla.broker.replicas.follower_sessions import FollowedPartition, FollowerSession
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from ottla.protocol.versions import FETCH_REPLICA_STATE_SINCE, FETCH_TOPIC_IDS_SINCE
from ottla.replication.divergence import find_divergence
from ottla.replication.leader import HIGH_WATERMARK_MOVED, REFUSED
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.net.request import Request
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.replicas.partition_table import PartitionTable
    from ottla.broker.replicas.throttles import ReplicationThrottles
    from ottla.protocol.messages.fetch_request import FetchRequest

log = logging.getLogger("ottla.replicas")

EPOCH_INITIAL = 0
EPOCH_FINAL = -1
HIGH_WATERMARK_LINGER_MS = 5
_EPOCH_MAX = 2**31 - 1


class FollowerFetchService:
    """The sessions of all followers, one each."""

    def __init__(
        self,
        partitions: PartitionTable,
        metadata: MetadataCache,
        throttles: ReplicationThrottles,
        clock: Callable[[], int],
        fetch_max_bytes: int,
    ) -> None:
        self.partitions = partitions
        self.throttles = throttles
        self.clock = clock
        self._metadata = metadata
        self._fetch_max_bytes = fetch_max_bytes
        self._sessions: dict[int, FollowerSession] = {}  # by node
        self._next_id = 0

    def serve(self, request: Request, message: FetchRequest) -> FetchResponse | asyncio.Future[FetchResponse]:
        now_ms = self.clock()
        with_state = request.version >= FETCH_REPLICA_STATE_SINCE
        node_id = message.replica_state.replica_id if with_state else message.replica_id
        session = self._session(node_id, message, now_ms)
        if isinstance(session, ErrorCode):
            return FetchResponse(error_code=session)
        if session.fetch is not None:
            session.fetch.finish()
        session.fetch_time.last_fetch_ms = now_ms
        session.connection = request.connection
        by_id = request.version >= FETCH_TOPIC_IDS_SINCE
        find = self.partitions.by_id if by_id else self.partitions.by_name
        for topic in message.topics:
            name: Any = topic.topic_id if by_id else topic.topic
            for wanted in topic.partitions:
                session.add((name, wanted.partition), wanted, find(name, wanted.partition))
        for forgotten in message.forgotten_topics_data:
            name = forgotten.topic_id if by_id else forgotten.topic
            for index in forgotten.partitions:
                session.forget((name, index))
        fetch = FollowerFetch(self, session, message, self._fetch_max_bytes)
        response = fetch.collect()
        if response is None and message.max_wait_ms > 0:
            return fetch.wait()
        if not session.id:
            session.end()
        return response or FetchResponse(session_id=session.id)

    def is_connected(self, node_id: int) -> bool:
        """Whether the connection of the follower's last fetch is open. When a process dies it closes long
        before the broker is fenced."""
        session = self._sessions.get(node_id)
        return session is not None and session.connection is not None and not session.connection.closed

    def drop(self, node_id: int) -> None:
        """End the session of a follower that has gone, or has been replaced by a new incarnation."""
        session = self._sessions.pop(node_id, None)
        if session is not None:
            session.end()

    def drop_all(self) -> None:
        for node_id in list(self._sessions):
            self.drop(node_id)

    def _session(self, node_id: int, message: FetchRequest, now_ms: int) -> FollowerSession | ErrorCode:
        known = self._sessions.get(node_id)
        epoch = message.session_epoch
        if epoch == EPOCH_FINAL:
            if known is not None and known.id == message.session_id:
                self.drop(node_id)
            return FollowerSession(0, node_id, now_ms)
        if epoch == EPOCH_INITIAL:
            if node_id not in self._metadata.image.brokers:
                return FollowerSession(0, node_id, now_ms)  # not a registered broker
            self.drop(node_id)
            self._next_id = self._next_id % _EPOCH_MAX + 1
            session = self._sessions[node_id] = FollowerSession(self._next_id, node_id, now_ms)
            return session
        if known is None or known.id != message.session_id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if known.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        known.epoch = 1 if known.epoch == _EPOCH_MAX else known.epoch + 1
        return known


class FollowerFetch:
    """One fetch of a follower, until its response."""

    __slots__ = (
        "_broker_epoch",
        "_collect_due",
        "_future",
        "_is_throttled",
        "_linger",
        "_lingers",
        "_max_bytes",
        "_may_linger",
        "_service",
        "_session",
        "_timers",
        "_wait_ms",
    )

    def __init__(
        self,
        service: FollowerFetchService,
        session: FollowerSession,
        message: FetchRequest,
        fetch_max_bytes: int,
    ) -> None:
        self._service = service
        self._session = session
        self._broker_epoch = message.replica_state.replica_epoch
        self._max_bytes = min(message.max_bytes, fetch_max_bytes)
        self._wait_ms = message.max_wait_ms
        self._future: asyncio.Future[FetchResponse]
        self._timers: list[asyncio.TimerHandle] = []
        self._linger: asyncio.TimerHandle | None = None
        self._collect_due = False
        self._may_linger = message.max_wait_ms > HIGH_WATERMARK_LINGER_MS
        self._lingers = False  # a high watermark waits to be sent
        self._is_throttled = False  # records wait for the quota

    # -- waiting

    def wait(self) -> asyncio.Future[FetchResponse]:
        loop = asyncio.get_running_loop()
        self._future = loop.create_future()
        self._future.add_done_callback(self._release)
        self._session.fetch = self
        self._timers.append(loop.call_later(self._wait_ms / 1000, self.finish))
        if self._lingers:
            self.moved(urgent=False)
        if self._is_throttled:
            self._retry_when_quota_allows(loop)
        return self._future

    def _retry_when_quota_allows(self, loop: asyncio.AbstractEventLoop) -> None:
        now_ms = self._service.clock()
        delay_ms = self._service.throttles.leader_quota.room_at_ms(now_ms) - now_ms
        if delay_ms > 0:
            delay_ms = min(delay_ms, self._wait_ms)
            self._timers.append(loop.call_later(delay_ms / 1000, self._collect_parked))

    def moved(self, urgent: bool) -> None:
        """Examine once per iteration of the event loop, however much it appends."""
        loop = asyncio.get_running_loop()
        if urgent:
            if not self._collect_due:
                self._collect_due = True
                loop.call_soon(self._collect_parked)
        elif self._linger is None:
            self._linger = loop.call_later(HIGH_WATERMARK_LINGER_MS / 1000, self._lingered)

    def _lingered(self) -> None:
        self._linger = None
        self._may_linger = False
        self._collect_parked()

    def finish(self) -> None:
        """Respond with what there is."""
        if not self._future.done():
            self._may_linger = False
            self._future.set_result(self.collect() or FetchResponse(session_id=self._session.id))
            self._release(self._future)

    def _collect_parked(self) -> None:
        self._collect_due = False
        if not self._future.done():
            response = self.collect()
            if response is not None:
                self._future.set_result(response)
                self._release(self._future)

    def _release(self, _: asyncio.Future[FetchResponse]) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if self._linger is not None:
            self._linger.cancel()
        session = self._session
        if session.fetch is self:
            session.fetch = None
            if not session.id:
                session.end()

    # -- collecting

    def collect(self) -> FetchResponse | None:
        """Examine the partitions that moved; None if there is nothing to send."""
        session = self._session
        now_ms = self._service.clock()
        topics: dict[Any, FetchableTopicResponse] = {}
        left_bytes = self._max_bytes
        has_records = False
        for followed in tuple(session.moving):
            if has_records and left_bytes <= 0 and not followed.fresh:
                continue
            data = self._examine(followed, left_bytes, not has_records, now_ms)
            if data is None:
                continue
            if data.records:
                has_records = True
                left_bytes -= len(data.records)
            name, _ = followed.key
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = (
                    FetchableTopicResponse(topic_id=name)
                    if isinstance(name, bytes)
                    else FetchableTopicResponse(topic=name)
                )
            topic.partitions.append(data)
        return FetchResponse(session_id=session.id, responses=list(topics.values())) if topics else None

    def _examine(
        self, followed: FollowedPartition, left_bytes: int, min_one_batch: bool, now_ms: int
    ) -> PartitionData | None:
        """What to send for a partition, or None; it leaves `moving` unless it has to wait."""
        session = self._session
        partition = followed.partition
        if partition is None or partition.deleted:
            return self._error(followed, self._service.partitions.missing_error(*followed.key))
        refused = partition.check_fetch(followed.leader_epoch)
        if refused or partition.leader is None:
            return self._error(followed, refused or ErrorCode.NOT_LEADER_OR_FOLLOWER)
        plog = partition.log
        offset = followed.fetch_offset
        if offset < plog.log_start_offset:
            return self._error(followed, ErrorCode.OFFSET_OUT_OF_RANGE, partition)
        if followed.fresh:
            followed.fresh = False
            refusal = self._record_progress(followed, partition, now_ms)
            if refusal is not None:
                return refusal
        data = PartitionData(
            partition_index=partition.index,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.high_watermark,
            log_start_offset=plog.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        if offset < plog.log_end_offset:
            try:
                if not self._read(followed, partition, data, left_bytes, min_one_batch, now_ms):
                    return None
            except StorageError as error:
                log.error("fetch failed: partition=%s-%d error=%s", partition.topic, partition.index, error)
                return self._error(followed, ErrorCode.KAFKA_STORAGE_ERROR)
        elif data.log_start_offset == followed.sent_log_start_offset:
            if data.high_watermark == followed.sent_high_watermark:
                session.moving.pop(followed, None)
                return None
            if self._may_linger:
                self._lingers = True
                return None
        session.moving.pop(followed, None)
        followed.sent_high_watermark = data.high_watermark
        followed.sent_log_start_offset = data.log_start_offset
        return data

    def _read(
        self,
        followed: FollowedPartition,
        partition: Partition,
        data: PartitionData,
        left_bytes: int,
        min_one_batch: bool,
        now_ms: int,
    ) -> bool:
        """Add records; False if they have to wait for the next response, or for the quota."""
        throttles = self._service.throttles
        throttled = throttles.limits_leader(partition, self._session.node_id)
        if throttled and throttles.leader_quota.is_exceeded(now_ms):
            self._is_throttled = True
            return False
        if left_bytes <= 0 and not min_one_batch:
            return False
        max_bytes = min(followed.max_bytes, left_bytes)
        records = partition.log.read(followed.fetch_offset, max_bytes, min_one_batch=min_one_batch)
        if not records:
            return False
        if throttled:
            throttles.leader_quota.record(len(records), now_ms)
        data.records = records
        followed.served = True
        return True

    def _record_progress(
        self, followed: FollowedPartition, partition: Partition, now_ms: int
    ) -> PartitionData | None:
        """Record the end of the follower's log, unless the log diverges from this one."""
        plog, offset, leader = partition.log, followed.fetch_offset, partition.leader
        assert leader is not None
        diverging = find_divergence(plog, followed.last_fetched_epoch, offset)
        if diverging is not None:
            if diverging[0] < 0:
                return self._error(followed, ErrorCode.OFFSET_OUT_OF_RANGE, partition)
            data = self._error(followed, ErrorCode.NONE, partition)
            data.diverging_epoch = EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
            return data
        if offset > plog.log_end_offset:
            return self._error(followed, ErrorCode.OFFSET_OUT_OF_RANGE, partition)
        flags = leader.follower_fetched(
            self._session.node_id,
            offset,
            followed.log_start_offset,
            plog.log_end_offset,
            self._broker_epoch,
            now_ms,
            self._session.fetch_time,
        )
        if flags & REFUSED:
            # The follower's metadata may be newer.
            known = followed.leader_epoch < 0
            return self._error(
                followed, ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_LEADER_EPOCH
            )
        if flags == HIGH_WATERMARK_MOVED:
            partition.commit(leader.high_watermark)  # the common case
        elif flags:
            partition.react(flags)
        return None

    def _error(
        self, followed: FollowedPartition, code: ErrorCode, partition: Partition | None = None
    ) -> PartitionData:
        followed.served = True
        followed.sent_high_watermark = -1
        self._session.moving.pop(followed, None)
        data = PartitionData(
            partition_index=followed.key[1],
            error_code=code,
            high_watermark=-1,
            aborted_transactions=None,
            records=b"",
        )
        if partition is not None:
            data.high_watermark = partition.high_watermark
            data.log_start_offset = partition.log.log_start_offset
        return data
