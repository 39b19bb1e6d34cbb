"""The leader's side of replication: fetches of followers, in sessions that cost nothing while all is quiet.

A follower's session (KIP-227) knows its partitions, and each partition knows the sessions that follow it:
what has moved is looked at, and nothing else. So a follower of a thousand partitions at rest is one parked
request and one clock.

The rules:
- A partition that was asked for is checked in this order: leader, leader epoch, log start, divergence, log
  end. Only then does the leader believe that the follower has everything below the offset.
- Whoever was given records, an error or a divergence is given nothing more until he asks again.
- Appends are told at once. A high watermark that moved alone is told a moment later: the next records carry
  it along.
- Another fetch of the session that arrives meanwhile ends the wait of the one before: it has news.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from ottla.replication.divergence import find_divergence
from ottla.replication.leader import REFUSED
from ottla.replication.progress import FollowerClock
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.net.request import ClientConnection, Request
    from ottla.broker.node import Node
    from ottla.broker.replicas.manager import ReplicaManager
    from ottla.broker.replicas.partition import Partition
    from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest

log = logging.getLogger("ottla.replicas")

EPOCH_INITIAL = 0
EPOCH_FINAL = -1
FIRST_VERSION_WITH_TOPIC_IDS = 13
FIRST_VERSION_WITH_REPLICA_STATE = 15
HIGH_WATERMARK_LINGER_MS = 5
_EPOCH_MAX = 2**31 - 1

_Key = tuple[Any, int]  # topic id or name, partition


class FollowedPartition:
    """One partition in a follower's session: what was asked, and what was told."""

    __slots__ = (
        "fetch_offset",
        "fresh",
        "key",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "served",
        "session",
        "told_high_watermark",
        "told_log_start_offset",
    )

    def __init__(self, session: FollowerSession, key: _Key) -> None:
        self.session = session
        self.key = key
        self.partition: Partition | None = None
        self.told_high_watermark = -1
        self.told_log_start_offset = -1

    def asked(self, wanted: FetchPartition) -> None:
        self.fetch_offset = wanted.fetch_offset
        self.leader_epoch = wanted.current_leader_epoch
        self.last_fetched_epoch = wanted.last_fetched_epoch
        self.log_start_offset = wanted.log_start_offset
        self.max_bytes = wanted.partition_max_bytes
        self.fresh = True  # not checked yet
        self.served = False  # has been given something, and has not asked since

    def follow(self, partition: Partition | None) -> None:
        if partition is not self.partition:
            if self.partition is not None:
                self.partition.unwatch_log(self._moved)
            self.partition = partition
            if partition is not None:
                partition.watch_log(self._moved)

    def _moved(self) -> None:
        if not self.served:
            partition = self.partition
            assert partition is not None
            self.session.moved(
                self, not partition.is_leader or partition.log.log_end_offset > self.fetch_offset
            )


class FollowerSession:
    """What one follower broker has asked for."""

    __slots__ = ("clock", "connection", "epoch", "fetch", "id", "moving", "node_id", "partitions")

    def __init__(self, session_id: int, node_id: int, now_ms: int) -> None:
        self.id = session_id
        self.node_id = node_id
        self.connection: ClientConnection | None = None  # by which it asked last
        self.epoch = 1
        self.clock = FollowerClock(now_ms)
        self.partitions: dict[_Key, FollowedPartition] = {}
        self.moving: dict[FollowedPartition, None] = {}  # to be looked at, who waits longest first
        self.fetch: FollowerFetch | None = None  # waits for something to move

    def moved(self, followed: FollowedPartition, urgent: bool) -> None:
        self.moving[followed] = None
        if self.fetch is not None:
            self.fetch.moved(urgent)

    def ask(self, key: _Key, wanted: FetchPartition, partition: Partition | None) -> None:
        followed = self.partitions.get(key)
        if followed is None:
            followed = self.partitions[key] = FollowedPartition(self, key)
        followed.asked(wanted)
        followed.follow(partition)
        self.moving.pop(followed, None)
        self.moving[followed] = None

    def forget(self, key: _Key) -> None:
        followed = self.partitions.pop(key, None)
        if followed is not None:
            followed.follow(None)
            self.moving.pop(followed, None)

    def end(self) -> None:
        if self.fetch is not None:
            self.fetch.finish()
        for followed in self.partitions.values():
            followed.follow(None)
        self.partitions.clear()
        self.moving.clear()


class FetchService:
    """The sessions of all followers, one for each."""

    def __init__(self, broker: Node, replicas: ReplicaManager) -> None:
        self._broker = broker
        self.replicas = replicas
        self._sessions: dict[int, FollowerSession] = {}  # by node
        self._next_id = 0

    def serve(self, request: Request, message: FetchRequest) -> FetchResponse | asyncio.Future[FetchResponse]:
        broker = self._broker
        now_ms = broker.clock()
        with_state = request.version >= FIRST_VERSION_WITH_REPLICA_STATE
        node_id = message.replica_state.replica_id if with_state else message.replica_id
        session = self._session(node_id, message, now_ms)
        if isinstance(session, ErrorCode):
            return FetchResponse(error_code=session)
        if session.fetch is not None:
            session.fetch.finish()
        session.clock.last_fetch_ms = now_ms
        session.connection = request.connection
        by_id = request.version >= FIRST_VERSION_WITH_TOPIC_IDS
        find = broker.partitions.by_id if by_id else broker.partitions.by_name
        for topic in message.topics:
            name: Any = topic.topic_id if by_id else topic.topic
            for wanted in topic.partitions:
                session.ask((name, wanted.partition), wanted, find(name, wanted.partition))
        for forgotten in message.forgotten_topics_data:
            name = forgotten.topic_id if by_id else forgotten.topic
            for index in forgotten.partitions:
                session.forget((name, index))
        fetch = FollowerFetch(broker, self, session, message, now_ms)
        answer = fetch.look()
        if answer is None and message.max_wait_ms > 0:
            return fetch.wait()
        if not session.id:
            session.end()
        return answer or FetchResponse(session_id=session.id)

    def is_connected(self, node_id: int) -> bool:
        """Has the follower asked, and not gone since? A process that dies leaves a closed connection behind,
        long before it is fenced."""
        session = self._sessions.get(node_id)
        return session is not None and session.connection is not None and not session.connection.closed

    def drop(self, node_id: int) -> None:
        """The follower is gone, or another incarnation has taken its place."""
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
            if node_id not in self._broker.image.brokers:
                return FollowerSession(0, node_id, now_ms)  # nobody that we know of
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
    """One fetch of a follower, from its first look to its answer."""

    __slots__ = (
        "_broker",
        "_broker_epoch",
        "_future",
        "_has_lingered",
        "_linger",
        "_look_due",
        "_max_bytes",
        "_may_linger",
        "_service",
        "_session",
        "_timers",
        "_wait_ms",
    )

    def __init__(
        self,
        broker: Node,
        service: FetchService,
        session: FollowerSession,
        message: FetchRequest,
        now_ms: int,
    ) -> None:
        self._broker = broker
        self._service = service
        self._session = session
        self._broker_epoch = message.replica_state.replica_epoch
        self._max_bytes = min(message.max_bytes, broker.fetch_max_bytes)
        self._wait_ms = message.max_wait_ms
        self._future: asyncio.Future[FetchResponse]
        self._timers: list[asyncio.TimerHandle] = []
        self._linger: asyncio.TimerHandle | None = None
        self._look_due = False
        self._may_linger = message.max_wait_ms > HIGH_WATERMARK_LINGER_MS
        self._has_lingered = False  # some high watermark waits to be told

    # -- waiting

    def wait(self) -> asyncio.Future[FetchResponse]:
        loop = asyncio.get_running_loop()
        self._future = loop.create_future()
        self._future.add_done_callback(self._release)
        self._session.fetch = self
        self._timers.append(loop.call_later(self._wait_ms / 1000, self.finish))
        if self._has_lingered:
            self.moved(urgent=False)
        throttled_ms = self._service.replicas.leader_quota.room_at_ms(self._broker.clock())
        if self._session.moving and throttled_ms > self._broker.clock():
            delay_ms = min(throttled_ms - self._broker.clock(), self._wait_ms)
            self._timers.append(loop.call_later(delay_ms / 1000, self._look))
        return self._future

    def moved(self, urgent: bool) -> None:
        """Look once per turn of the loop, however much that turn appends."""
        loop = asyncio.get_running_loop()
        if urgent:
            if not self._look_due:
                self._look_due = True
                loop.call_soon(self._look)
        elif self._linger is None:
            self._linger = loop.call_later(HIGH_WATERMARK_LINGER_MS / 1000, self._lingered)

    def _lingered(self) -> None:
        self._linger = None
        self._may_linger = False
        self._look()

    def finish(self) -> None:
        """Answer with what there is."""
        if not self._future.done():
            self._may_linger = False
            self._future.set_result(self.look() or FetchResponse(session_id=self._session.id))
            self._release(self._future)

    def _look(self) -> None:
        self._look_due = False
        if not self._future.done():
            answer = self.look()
            if answer is not None:
                self._future.set_result(answer)
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

    # -- looking

    def look(self) -> FetchResponse | None:
        """Look at what has moved; None if that is no news."""
        session = self._session
        now_ms = self._broker.clock()
        topics: dict[Any, FetchableTopicResponse] = {}
        left_bytes = self._max_bytes
        has_records = False
        for followed in tuple(session.moving):
            if has_records and left_bytes <= 0 and not followed.fresh:
                continue
            data = self._look_at(followed, left_bytes, not has_records, now_ms)
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

    def _look_at(
        self, followed: FollowedPartition, left_bytes: int, min_one_batch: bool, now_ms: int
    ) -> PartitionData | None:
        """The partition's news, None if there are none; it leaves `moving` unless it waits for its turn."""
        session = self._session
        partition = followed.partition
        if partition is None or partition.deleted or partition.leader is None:
            return self._error(followed, self._why_not_led(followed))
        wrong_epoch = partition.check_leader_epoch(followed.leader_epoch)
        if wrong_epoch:
            return self._error(followed, wrong_epoch)
        plog = partition.log
        offset = followed.fetch_offset
        if offset < plog.log_start_offset:
            return self._error(followed, ErrorCode.OFFSET_OUT_OF_RANGE, partition)
        if followed.fresh:
            followed.fresh = False
            problem = self._take_over(followed, partition, now_ms)
            if problem is not None:
                return problem
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
        elif data.log_start_offset == followed.told_log_start_offset:
            if data.high_watermark == followed.told_high_watermark:
                session.moving.pop(followed, None)
                return None
            if self._may_linger:
                self._has_lingered = True
                return None
        session.moving.pop(followed, None)
        followed.told_high_watermark = data.high_watermark
        followed.told_log_start_offset = data.log_start_offset
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
        """Add records; False if they have to wait for the next answer, or for the quota."""
        replicas = self._service.replicas
        throttled = replicas.throttles_leader(partition, self._session.node_id)
        if throttled and replicas.leader_quota.is_exceeded(now_ms):
            return False
        if left_bytes <= 0 and not min_one_batch:
            return False
        max_bytes = min(followed.max_bytes, left_bytes)
        records = partition.log.read(followed.fetch_offset, max_bytes, min_one_batch=min_one_batch)
        if not records:
            return False
        if throttled:
            replicas.leader_quota.record(len(records), now_ms)
        data.records = records
        followed.served = True
        return True

    def _take_over(
        self, followed: FollowedPartition, partition: Partition, now_ms: int
    ) -> PartitionData | None:
        """Believe what the follower says that it has, unless its log has parted from ours."""
        plog, offset, leader = partition.log, followed.fetch_offset, partition.leader
        assert leader is not None
        parted = find_divergence(plog, followed.last_fetched_epoch, offset)
        if parted is not None:
            if parted[0] < 0:
                return self._error(followed, ErrorCode.OFFSET_OUT_OF_RANGE, partition)
            data = self._error(followed, ErrorCode.NONE, partition)
            data.diverging_epoch = EpochEndOffset(epoch=parted[0], end_offset=parted[1])
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
            self._session.clock,
        )
        if flags & REFUSED:
            # It may know of an assignment that has not reached us yet.
            known = followed.leader_epoch < 0
            return self._error(
                followed, ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_LEADER_EPOCH
            )
        if flags:
            self._service.replicas.react(partition, flags)
        return None

    def _why_not_led(self, followed: FollowedPartition) -> ErrorCode:
        name, index = followed.key
        broker = self._broker
        by_id = isinstance(name, bytes)
        topic = broker.image.topics_by_id.get(name) if by_id else broker.image.topics_by_name.get(name)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if followed.partition is None or followed.partition.deleted:
            return broker.why_not_hosted(topic.name, index)
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _error(
        self, followed: FollowedPartition, code: ErrorCode, partition: Partition | None = None
    ) -> PartitionData:
        followed.served = True
        followed.told_high_watermark = -1
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
