"""Fetch sessions (KIP-227): requests and responses name only the partitions that changed.

A session keeps, per partition, what the client wants and what it was last sent. Its epoch counts the
requests: 1 follows the opening request, and 1 follows 2^31-1.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_request import FetchRequest

EPOCH_INITIAL = 0
EPOCH_FINAL = -1
EVICTION_MS = 120_000  # a session idle for this long may be replaced by a new one
# Of all sessions together, half a kilobyte each: without a limit a few requests could fill the memory.
PARTITIONS_MAX = 200_000
_EPOCH_MAX = 2**31 - 1


class PartitionKey(NamedTuple):
    """Topic id in Fetch 13 and later, topic name before: a session uses one of them throughout."""

    topic: bytes | str
    partition: int


class FetchPartitionState:
    """What the client requests of one partition, and what it was last sent."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
    )

    def __init__(self, key: PartitionKey) -> None:
        self.key = key
        self.fetch_offset = 0
        self.max_bytes = 0
        self.current_leader_epoch = -1
        self.last_fetched_epoch = -1
        self.high_watermark = -1  # as last sent; -1: not sent yet
        self.log_start_offset = -1


class FetchSession:
    __slots__ = ("epoch", "id", "last_used_ms", "partitions", "uses_topic_ids")

    def __init__(self, session_id: int, uses_topic_ids: bool, now_ms: int) -> None:
        self.id = session_id
        self.epoch = 1
        self.uses_topic_ids = uses_topic_ids
        self.last_used_ms = now_ms
        self.partitions: OrderedDict[PartitionKey, FetchPartitionState] = OrderedDict()

    def expect_next(self) -> None:
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1


class FetchContext(NamedTuple):
    """The partitions that a request reads, and the form of its response."""

    session_id: int
    partitions: list[FetchPartitionState]
    session: FetchSession | None
    incremental: bool


class SessionError(Exception):
    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class FetchSessionCache:
    """A bounded cache: a new session evicts long-idle sessions, or is not created."""

    def __init__(
        self,
        slots_max: int,
        eviction_ms: int = EVICTION_MS,
        new_id: Callable[[], int] | None = None,
        partitions_max: int = PARTITIONS_MAX,
    ) -> None:
        self._slots_max = slots_max
        self._partitions_max = partitions_max
        self._partitions_count = 0
        self._eviction_ms = eviction_ms
        self._new_id = new_id or (lambda: random.randint(1, _EPOCH_MAX))
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: FetchRequest, uses_topic_ids: bool, now_ms: int) -> FetchContext:
        """The context of a request. Raises SessionError if the session does not match the request."""
        if request.session_epoch == EPOCH_FINAL:
            self._drop(request.session_id)
            return FetchContext(0, list(_requested(request, uses_topic_ids)), None, False)
        if request.session_epoch == EPOCH_INITIAL:
            self._drop(request.session_id)
            return self._create(list(_requested(request, uses_topic_ids)), uses_topic_ids, now_ms)
        return self._continue(request, uses_topic_ids, now_ms)

    def _create(self, wanted: list[FetchPartitionState], uses_topic_ids: bool, now_ms: int) -> FetchContext:
        if not wanted or not self._make_room(len(wanted), now_ms):
            return FetchContext(0, wanted, None, False)
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = self._new_id()
        session = FetchSession(session_id, uses_topic_ids, now_ms)
        session.partitions.update((state.key, state) for state in wanted)
        self._partitions_count += len(session.partitions)
        self._sessions[session_id] = session
        return FetchContext(session_id, wanted, session, False)

    def _continue(self, request: FetchRequest, uses_topic_ids: bool, now_ms: int) -> FetchContext:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise SessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.uses_topic_ids != uses_topic_ids:
            raise SessionError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if request.session_epoch != session.epoch:
            raise SessionError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        session.expect_next()
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.id)
        count_before = len(session.partitions)
        for state in _requested(request, uses_topic_ids):
            known = session.partitions.get(state.key)
            if known is not None:  # keep the state that was sent, replace the requested one
                state.high_watermark, state.log_start_offset = known.high_watermark, known.log_start_offset
            session.partitions[state.key] = state
        for topic in request.forgotten_topics_data:
            name = topic.topic_id if uses_topic_ids else topic.topic
            for partition in topic.partitions:
                session.partitions.pop(PartitionKey(name, partition), None)
        self._partitions_count += len(session.partitions) - count_before
        if self._partitions_count > self._partitions_max:
            self._drop(session.id)
            raise SessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)  # the client continues without a session
        return FetchContext(session.id, list(session.partitions.values()), session, True)

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions_count -= len(session.partitions)

    def _make_room(self, partitions_count: int, now_ms: int) -> bool:
        """Evict idle sessions for one with that number of partitions; False if that is not enough."""
        if partitions_count > self._partitions_max or not self._slots_max:
            return False
        while (
            len(self._sessions) >= self._slots_max
            or self._partitions_count + partitions_count > self._partitions_max
        ):
            oldest = next(iter(self._sessions.values()))
            if now_ms - oldest.last_used_ms < self._eviction_ms:
                return False
            self._drop(oldest.id)
        return True


def _requested(request: FetchRequest, uses_topic_ids: bool) -> Iterable[FetchPartitionState]:
    for topic in request.topics:
        name = topic.topic_id if uses_topic_ids else topic.topic
        for wanted in topic.partitions:
            state = FetchPartitionState(PartitionKey(name, wanted.partition))
            state.fetch_offset = wanted.fetch_offset
            state.max_bytes = wanted.partition_max_bytes
            state.current_leader_epoch = wanted.current_leader_epoch
            state.last_fetched_epoch = wanted.last_fetched_epoch
            yield state
