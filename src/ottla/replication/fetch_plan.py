"""The fetch session of a follower broker with one leader broker: one fetch at a time, over many partitions.

The rules:

1.  The first request is full (session epoch 0); if the leader opens a session, the next ones name only
    changes: partitions to add or to read from another offset, and partitions to forget. A round without
    changes costs nothing per partition, on either side. One request at a time, except for changes: the leader
    may hold a request for half a second, and a partition with a new leader cannot wait that long. Then a
    second request follows, at which the leader answers the first. (A full one is not held.)
2.  A partition is in the session while its follower is fetching; one that waits (for a delay, a response to
    another request, its quota) is forgotten and added again later. Otherwise the leader would return its
    error at once, over and over.
3.  A response counts if it matches the current request: same leader epoch, same offset, no later request.
    Any other is dropped. The leader then assumes wrongly that we know its high watermark, so the partition
    is forgotten in the next request, which does not wait, and added in the one after it. The same holds for
    a partition that was removed and added again.
4.  FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR and lost connections
    end the session: the next request is full and closes what may be left of the old one. If that happens
    repeatedly, requests are delayed.
5.  Fairness: the leader moves partitions that returned data to the end of the session's order; full requests
    here have the same order.
6.  A follower that waits for a flush stays in the session: the leader returns nothing for it until it
    fetches again.
7.  A partition that got records, an error or a divergence is requested again, even at the same offset: the
    delay after an error may be over before the next request is built.
8.  Throttled partitions that are not in the ISR are left out while the quota is exceeded. The others never
    wait for them.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from ottla.replication.follower import BACKOFF_MS_MIN, DELAYED, FETCHING, FLUSHING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.protocol.messages.fetch_response import FetchResponse, PartitionData
    from ottla.replication.follower import FollowerState
    from ottla.replication.throttle import ReplicationQuota

_EPOCH_MAX = 2**31 - 1
_IN_FLIGHT_MAX = 2
_SESSION_ERRORS = frozenset(
    (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    )
)


class FetchLimits:
    """The replica.fetch.* properties."""

    __slots__ = ("backoff_ms_max", "max_bytes", "max_wait_ms", "min_bytes", "partition_max_bytes")

    def __init__(
        self,
        *,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 10 * 1024 * 1024,
        partition_max_bytes: int = 1024 * 1024,
        backoff_ms_max: int = 1000,
    ) -> None:
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.partition_max_bytes = partition_max_bytes
        self.backoff_ms_max = backoff_ms_max


class PlannedPartition:
    """One partition of the plan: its follower, and the last request to the leader about it."""

    __slots__ = (
        "_requested_epoch",
        "_requested_last_epoch",
        "_requested_log_start",
        "follower",
        "in_session",
        "partition",
        "requested_offset",
        "requested_serial",
        "throttled",
        "topic_id",
        "was_served",
    )

    def __init__(self, topic_id: bytes, partition: int, follower: FollowerState) -> None:
        self.topic_id = topic_id
        self.partition = partition
        self.follower = follower
        self.throttled = False
        self.in_session = False
        self.was_served = False  # the leader returns nothing more until the next request
        self.requested_offset = -1
        self.requested_serial = -1
        self._requested_epoch = -1
        self._requested_last_epoch = -1
        self._requested_log_start = -1

    def __repr__(self) -> str:
        return f"PlannedPartition({self.topic_id.hex()}-{self.partition}, {self.follower!r})"

    @property
    def request_is_current(self) -> bool:
        """Whether the last request to the leader is the one that the follower would send now."""
        follower = self.follower
        return (
            self.in_session
            and follower.phase == FETCHING
            and self._requested_epoch == follower.leader_epoch
            and self.requested_offset == follower.log.log_end_offset
        )

    def needs_request(self) -> bool:
        """Whether the next request must name this partition, because the leader's session is out of date."""
        follower = self.follower
        return (
            not self.in_session
            or self.was_served
            or self.requested_offset != follower.log.log_end_offset
            or self._requested_epoch != follower.leader_epoch
            or self._requested_log_start != follower.log.log_start_offset
            or self._requested_last_epoch != follower.last_fetched_epoch
        )

    def build_request(self, max_bytes: int, serial: int) -> FetchPartition:
        """The partition's part of the next request, which is recorded as its last one."""
        follower = self.follower
        self.in_session = True
        self.was_served = False
        self.requested_serial = serial
        self.requested_offset = follower.log.log_end_offset
        self._requested_epoch = follower.leader_epoch
        self._requested_last_epoch = follower.last_fetched_epoch
        self._requested_log_start = follower.log.log_start_offset
        return FetchPartition(
            partition=self.partition,
            current_leader_epoch=self._requested_epoch,
            fetch_offset=self.requested_offset,
            last_fetched_epoch=self._requested_last_epoch,
            log_start_offset=self._requested_log_start,
            partition_max_bytes=max_bytes,
        )


_Key = tuple[bytes, int]


class FetchPlan:
    """All partitions that this broker follows at one leader broker (or at one of its fetchers)."""

    def __init__(
        self, node_id: int, broker_epoch: int, limits: FetchLimits, quota: ReplicationQuota | None = None
    ) -> None:
        self.node_id = node_id
        self.broker_epoch = broker_epoch  # set again after a registration
        self.limits = limits
        self.quota = quota
        self.session_id = 0
        self.session_epoch = 0  # of the next request; 0: a full one
        self._in_flight_serials: deque[int] = deque()  # serials of the requests that are not answered yet
        self._request_serial = 0
        self._without_session = False  # the leader has no room for one
        self._entries: dict[_Key, PlannedPartition] = {}
        self._changed: dict[_Key, None] = {}  # to be checked for the next request, in this order
        self._forgotten: dict[_Key, None] = {}  # in the leader's session, and to be removed from it
        self._throttled: dict[_Key, None] = {}  # may have to wait for the quota
        self._delayed: list[tuple[int, int, _Key]] = []  # heap of (due, serial, key)
        self._serial = 0
        self._requested_count = 0
        self._pause_ms = 0
        self._paused_until_ms = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def in_flight(self) -> bool:
        return bool(self._in_flight_serials)

    # -- which partitions

    def add(self, topic_id: bytes, partition: int, follower: FollowerState) -> PlannedPartition:
        """Follow a partition here from now on; takes the place of one that was there."""
        key = (topic_id, partition)
        if key in self._entries:
            self.remove(topic_id, partition)
        entry = self._entries[key] = PlannedPartition(topic_id, partition, follower)
        self._changed[key] = None
        return entry

    def remove(self, topic_id: bytes, partition: int) -> None:
        """Stop following it here; a response in flight is ignored."""
        key = (topic_id, partition)
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._changed.pop(key, None)
            self._throttled.pop(key, None)
            self._leave_session(key, entry)

    def touch(self, topic_id: bytes, partition: int) -> None:
        """The follower changed other than by `answered`: new epoch, new log start, offsets received."""
        key = (topic_id, partition)
        if key in self._entries:
            self._changed[key] = None

    def set_throttled(self, topic_id: bytes, partition: int, throttled: bool) -> None:
        key = (topic_id, partition)
        entry = self._entries.get(key)
        if entry is not None and entry.throttled != throttled:
            entry.throttled = throttled
            self._changed[key] = None
            if throttled:
                self._throttled[key] = None
            else:
                self._throttled.pop(key, None)

    def partitions(self) -> Iterable[PlannedPartition]:
        return self._entries.values()

    def is_following(self, topic_id: bytes, partition: int, follower: FollowerState) -> bool:
        entry = self._entries.get((topic_id, partition))
        return entry is not None and entry.follower is follower

    def has(self, entry: PlannedPartition) -> bool:
        return self._entries.get((entry.topic_id, entry.partition)) is entry

    @property
    def has_changes(self) -> bool:
        """Whether a request now would contain changes that the one in flight lacks."""
        return bool(self._changed or self._forgotten)

    # -- requests

    def next_request(self, now_ms: int) -> FetchRequest | None:
        """Return the next fetch; None while the one in flight is up to date, or nothing is to be fetched (see
        `wake_at_ms`).
        """
        if now_ms < self._paused_until_ms:
            return None
        if self._in_flight_serials and not (
            self.session_epoch and self.has_changes and len(self._in_flight_serials) < _IN_FLIGHT_MAX
        ):
            return None
        self._wake_delayed(now_ms)
        self._changed.update(self._throttled)
        full = self.session_epoch == 0
        self._request_serial += 1
        topics: dict[bytes, FetchTopic] = {}
        held_over: dict[_Key, None] = {}
        for key in self._entries if full else tuple(self._changed):
            entry = self._entries[key]
            if entry.follower.phase == FLUSHING:
                continue  # `touch` follows when the flush is done
            if not self._is_ready(entry, now_ms):
                self._leave_session(key, entry)
                if entry.follower.phase == DELAYED and key in self._changed:
                    self._serial += 1
                    heappush(self._delayed, (entry.follower.retry_at_ms, self._serial, key))
            elif key in self._forgotten and not full:
                held_over[key] = None
            elif full or entry.needs_request():
                self._requested_count += not entry.in_session
                topic = topics.get(entry.topic_id)
                if topic is None:
                    topic = topics[entry.topic_id] = FetchTopic(topic_id=entry.topic_id)
                request = entry.build_request(self.limits.partition_max_bytes, self._request_serial)
                topic.partitions.append(request)
        self._changed = held_over
        if not self._requested_count and not held_over:
            return None  # partitions to forget go with the next partition to fetch
        self._in_flight_serials.append(self._request_serial)
        fetch = self._request(topics, held_over, now_ms)
        if not full:
            self.session_epoch = 1 if self.session_epoch == _EPOCH_MAX else self.session_epoch + 1
        return fetch

    def _request(
        self, topics: dict[bytes, FetchTopic], held_over: dict[_Key, None], now_ms: int
    ) -> FetchRequest:
        forgotten: dict[bytes, ForgottenTopic] = {}
        if self.session_epoch:
            for topic_id, partition in self._forgotten:
                if topic_id not in forgotten:
                    forgotten[topic_id] = ForgottenTopic(topic_id=topic_id)
                forgotten[topic_id].partitions.append(partition)
        self._forgotten.clear()
        max_wait_ms = self.limits.max_wait_ms
        wake_at_ms = self._due_ms(now_ms)
        if held_over or not (self.session_epoch or self._without_session):
            max_wait_ms = 0
        elif wake_at_ms is not None:
            max_wait_ms = min(max_wait_ms, max(0, wake_at_ms - now_ms))
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self.node_id, replica_epoch=self.broker_epoch),
            max_wait_ms=max_wait_ms,
            min_bytes=self.limits.min_bytes,
            max_bytes=self.limits.max_bytes,
            session_id=self.session_id,
            session_epoch=self.session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
        )

    def wake_at_ms(self, now_ms: int) -> int | None:
        """When `next_request` may return a request without another event."""
        if now_ms < self._paused_until_ms:
            return self._paused_until_ms
        return self._due_ms(now_ms)

    # -- responses

    def answered(self, response: FetchResponse, now_ms: int) -> list[tuple[PlannedPartition, PartitionData]]:
        """Return valid partition responses. Pass each to `FollowerState.answered` before another request."""
        assert self._in_flight_serials
        serial = self._in_flight_serials.popleft()
        if response.error_code != ErrorCode.NONE:
            at_once = response.error_code in _SESSION_ERRORS  # unless it happens repeatedly
            self._end_session(now_ms, self._pause_ms if at_once else max(self._pause_ms, BACKOFF_MS_MIN))
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.session_id = 0
            return []
        self._pause_ms = 0
        self._without_session = not response.session_id
        if response.session_id and not self.session_epoch:
            self.session_id = response.session_id
            self.session_epoch = 1
        counting: list[tuple[PlannedPartition, PartitionData]] = []
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                entry = self._entries.get(key)
                if entry is None:
                    continue
                self._changed[key] = None
                if entry.requested_serial > serial or not entry.request_is_current:
                    self._leave_session(key, entry)
                    continue
                counting.append((entry, data))
                if data.error_code or data.records or data.diverging_epoch.end_offset >= 0:
                    entry.was_served = True
                if data.records:
                    self._entries[key] = self._entries.pop(key)
                    if entry.throttled and self.quota is not None and not entry.follower.in_isr:
                        self.quota.record(len(data.records), now_ms)
        if not response.session_id:  # the leader keeps none: each request has to be full
            self._reset()
            self.session_id = 0
        return counting

    def failed(self, now_ms: int) -> None:
        """No response will arrive: the connection is lost, or could not be opened."""
        self._end_session(now_ms, self._pause_ms)

    def end_pause(self) -> None:
        """End the pause before the next attempt, because it is likely to succeed."""
        self._pause_ms = 0
        self._paused_until_ms = 0

    @property
    def paused_until_ms(self) -> int:
        return self._paused_until_ms

    # -- inside

    def _is_ready(self, entry: PlannedPartition, now_ms: int) -> bool:
        follower = entry.follower
        if follower.phase == DELAYED:
            follower.due(now_ms)
        if follower.phase != FETCHING:
            return False
        if not entry.throttled or self.quota is None or follower.in_isr:
            return True
        return not self.quota.is_exceeded(now_ms)

    def _leave_session(self, key: _Key, entry: PlannedPartition) -> None:
        if entry.in_session:
            entry.in_session = False
            self._requested_count -= 1
            if self.session_epoch or self.in_flight:  # a full request in flight may open a session with it
                self._forgotten[key] = None

    def _wake_delayed(self, now_ms: int) -> None:
        while self._delayed and self._delayed[0][0] <= now_ms:
            key = heappop(self._delayed)[2]
            if key in self._entries:
                self._changed[key] = None

    def _due_ms(self, now_ms: int) -> int | None:
        due_ms = self._delayed[0][0] if self._delayed else None
        if self._throttled and self.quota is not None:
            room_at_ms = self.quota.room_at_ms(now_ms)
            if room_at_ms > now_ms and (due_ms is None or room_at_ms < due_ms):
                return room_at_ms
        return due_ms

    def _end_session(self, now_ms: int, pause_ms: int) -> None:
        self._in_flight_serials.clear()
        self._reset()
        self._paused_until_ms = now_ms + pause_ms
        self._pause_ms = min(max(2 * self._pause_ms, BACKOFF_MS_MIN), self.limits.backoff_ms_max)

    def _reset(self) -> None:
        """The next request is full."""
        self.session_epoch = 0
        self._forgotten.clear()
        self._requested_count = 0
        for entry in self._entries.values():
            entry.in_session = False
