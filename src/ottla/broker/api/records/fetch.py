"""Fetch (1): return batches as they are stored, or wait until there are enough of them.

This is the fetch path of consumers; `replicas/follower_fetch.py` serves followers.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.api.forwarding import raft_handler
from ottla.broker.api.records.fetch_sessions import (
    FetchContext,
    FetchPartitionState,
    FetchSessionCache,
    SessionError,
)
from ottla.broker.api.records.leader_hints import add_endpoints, add_leader
from ottla.broker.net.promise import Promise
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)
from ottla.protocol.versions import (
    FETCH_CURRENT_LEADER_SINCE,
    FETCH_NODE_ENDPOINTS_SINCE,
    FETCH_RACK_SINCE,
    FETCH_REPLICA_STATE_SINCE,
    FETCH_TOPIC_IDS_SINCE,
)
from ottla.replication.divergence import find_divergence
from ottla.storage.errors import OffsetOutOfRange, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.net.request import Request
    from ottla.broker.replicas.manager import ReplicaManager
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.replicas.partition_table import PartitionTable
    from ottla.broker.replicas.read_replica import ReadReplicaSelector

READ_COMMITTED = 1
WAIT_MS_MAX = 2**31 - 1

log = logging.getLogger("ottla.fetch")


class Fetch:
    def __init__(
        self,
        identity: NodeIdentity,
        metadata: MetadataCache,
        partitions: PartitionTable,
        replicas: ReplicaManager,
        read_replicas: ReadReplicaSelector,
        sessions: FetchSessionCache,
        clock: Callable[[], int],
        max_bytes: int,
    ) -> None:
        self.identity = identity
        self.metadata = metadata
        self.partitions = partitions
        self.read_replicas = read_replicas
        self.max_bytes = max_bytes
        self._replicas = replicas
        self._sessions = sessions
        self._clock = clock

    def handle(self, request: Request, message: FetchRequest) -> Any:
        with_state = request.version >= FETCH_REPLICA_STATE_SINCE
        if (message.replica_state.replica_id if with_state else message.replica_id) >= 0:
            return self._replicas.follower_fetches.serve(request, message)
        uses_topic_ids = request.version >= FETCH_TOPIC_IDS_SINCE
        try:
            session = self._sessions.open(message, uses_topic_ids, self._clock())
        except SessionError as error:
            return FetchResponse(error_code=error.code)
        fetch = _Fetch(self, request, message, session)
        fetch.read()
        if fetch.satisfied or message.max_wait_ms <= 0 or not session.partitions:
            return fetch.response()
        return fetch.wait()


def create(parts: ApiParts) -> Handler:
    sessions = FetchSessionCache(
        parts.config.get_int("max.incremental.fetch.session.cache.slots"),
        new_id=parts.randomness.session_id,
    )
    return Fetch(
        parts.identity,
        parts.metadata,
        parts.partitions,
        parts.replicas,
        parts.read_replicas,
        sessions,
        parts.clock,
        parts.config.get_int("fetch.max.bytes"),
    ).handle


class _Fetch:
    """One fetch, from its first read of the logs to its response."""

    __slots__ = (
        "_bytes",
        "_context",
        "_deadline",
        "_failed",
        "_fetch",
        "_message",
        "_promise",
        "_read_again",
        "_request",
        "_results",
        "_watched",
    )

    def __init__(self, fetch: Fetch, request: Request, message: FetchRequest, context: FetchContext) -> None:
        self._fetch = fetch
        self._request = request
        self._message = message
        self._context = context
        self._results: list[tuple[FetchPartitionState, PartitionData]] = []
        self._bytes = 0
        self._failed = False  # a partition has an error or a divergence: respond at once
        self._promise: Promise[FetchResponse]
        self._deadline: asyncio.TimerHandle
        self._watched: list[Partition] = []
        self._read_again = False

    @property
    def satisfied(self) -> bool:
        return self._failed or self._bytes >= self._message.min_bytes

    # -- reading

    def read(self) -> None:
        """Read every partition; the first one with data returns at least one whole batch (KIP-74)."""
        self._results.clear()
        self._bytes = 0
        self._failed = False
        left_bytes = min(self._message.max_bytes, self._fetch.max_bytes)
        for state in self._context.partitions:
            try:
                data = self._read_partition(state, left_bytes)
            except StorageError as error:
                # Also the last stable offset may have to be read: the producer state is loaded on demand.
                log.error("fetch failed: error=%s", error)  # it names the file
                data = self._error(state.key.partition, ErrorCode.KAFKA_STORAGE_ERROR)
            size = len(data.records) if data.records is not None else 0
            left_bytes = max(0, left_bytes - size)
            self._bytes += size
            self._results.append((state, data))

    def _read_partition(self, state: FetchPartitionState, left_bytes: int) -> PartitionData:
        index = state.key.partition
        found = self._fetch.partitions.find(*state.key)
        if isinstance(found, ErrorCode):
            return self._error(index, found)
        partition = found
        refused = partition.check_fetch(
            state.current_leader_epoch, from_follower=self._request.version >= FETCH_RACK_SINCE
        )
        if refused:
            return self._error(index, refused)
        read_committed = self._message.isolation_level == READ_COMMITTED
        high_watermark = partition.high_watermark
        stable = partition.last_stable_offset
        upper = stable if read_committed else high_watermark
        data = PartitionData(
            partition_index=index,
            high_watermark=high_watermark,
            last_stable_offset=stable,
            log_start_offset=partition.log.log_start_offset,
            aborted_transactions=None,
        )
        if state.last_fetched_epoch >= 0 and self._diverges(partition, state, data):
            return data
        if (
            self._message.rack_id
            and partition.leader is not None
            and self._is_redirected(partition, state, data)
        ):
            return data
        # On a follower an open transaction may hold the stable offset back for long: no reason to refuse.
        known_end = upper if partition.is_leader else high_watermark
        if (
            known_end < state.fetch_offset <= partition.log.log_end_offset
            and not partition.offsets_are_settled
        ):
            # The reader got the offset from a broker with a higher high watermark: do not report a lower end.
            data = PartitionData(partition_index=index, high_watermark=-1, records=b"")
            data.error_code = ErrorCode.OFFSET_NOT_AVAILABLE
            return data  # unless the high watermark advances before max_wait_ms
        try:
            data.records = region = partition.log.read(
                state.fetch_offset, min(state.max_bytes, left_bytes), upper, min_one_batch=self._bytes == 0
            )
            if read_committed:
                data.aborted_transactions = [
                    AbortedTransaction(producer_id=txn.producer_id, first_offset=txn.first_offset)
                    for txn in partition.log.aborted_transactions(state.fetch_offset, region.upper_offset)
                ]
        except OffsetOutOfRange:
            return self._error(index, ErrorCode.OFFSET_OUT_OF_RANGE, partition)
        return data

    def _diverges(self, partition: Partition, state: FetchPartitionState, data: PartitionData) -> bool:
        """Whether the reader's last epoch ended earlier in this log; if so, respond with that end."""
        diverging = find_divergence(partition.log, state.last_fetched_epoch, state.fetch_offset)
        if diverging is None or diverging[0] < 0:
            return False  # the reader's epoch is older than the log: there is nothing to compare
        data.diverging_epoch = EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
        data.records = b""
        self._failed = True
        return True

    def _is_redirected(self, partition: Partition, state: FetchPartitionState, data: PartitionData) -> bool:
        """Whether a replica is nearer to the consumer; if so, respond with its id only (KIP-392)."""
        fetch = self._fetch
        near = fetch.read_replicas.nearest(partition, self._message.rack_id, state.fetch_offset)
        if near == fetch.identity.node_id:
            return False
        data.preferred_read_replica = near
        data.records = b""
        self._failed = True
        return True

    def _error(self, index: int, code: ErrorCode, partition: Partition | None = None) -> PartitionData:
        self._failed = True
        data = PartitionData(partition_index=index, error_code=code, high_watermark=-1, records=b"")
        if partition is not None:
            data.high_watermark = partition.high_watermark
            data.log_start_offset = partition.log.log_start_offset
        return data

    # -- waiting

    def wait(self) -> Promise[FetchResponse]:
        """A promise of the response: done when there is enough data, on an error, or after max_wait_ms."""
        loop = asyncio.get_running_loop()
        self._promise = Promise()
        self._deadline = loop.call_later(min(self._message.max_wait_ms, WAIT_MS_MAX) / 1000, self._time_out)
        for state in self._context.partitions:
            found = self._fetch.partitions.find(*state.key)
            if not isinstance(found, ErrorCode):
                found.watch(self._moved)
                self._watched.append(found)
        self._promise.add_done_callback(self._release)
        return self._promise

    def _moved(self) -> None:
        """Reread when a partition has advanced, at most once per iteration of the event loop."""
        if not self._read_again:
            self._read_again = True
            asyncio.get_running_loop().call_soon(self._reread)

    def _reread(self) -> None:
        self._read_again = False
        if not self._promise.done():
            self.read()
            if self.satisfied:
                self._promise.set_result(self.response())

    def _time_out(self) -> None:
        if not self._promise.done():
            self.read()
            self._promise.set_result(self.response())

    def _release(self, _: Promise[FetchResponse]) -> None:
        self._deadline.cancel()
        for partition in self._watched:
            partition.unwatch(self._moved)
        self._watched.clear()

    # -- responding

    def response(self) -> FetchResponse:
        context = self._context
        response = FetchResponse(session_id=context.session_id)
        topic_responses: dict[Any, FetchableTopicResponse] = {}
        for state, data in self._results:
            if context.incremental and not _is_changed(state, data):
                continue
            state.high_watermark = -1 if data.error_code else data.high_watermark
            state.log_start_offset = data.log_start_offset
            topic = state.key.topic
            topic_response = topic_responses.get(topic)
            if topic_response is None:
                topic_response = topic_responses[topic] = (
                    FetchableTopicResponse(topic_id=topic)
                    if isinstance(topic, bytes)
                    else FetchableTopicResponse(topic=topic)
                )
                response.responses.append(topic_response)
            topic_response.partitions.append(data)
            if context.session is not None and data.records and state.key in context.session.partitions:
                # A served partition moves to the end, so that a small max_bytes starves no partition.
                context.session.partitions.move_to_end(state.key)
        if self._failed and self._request.version >= FETCH_CURRENT_LEADER_SINCE:
            self._add_leaders(response)
        return response

    def _add_leaders(self, response: FetchResponse) -> None:
        image = self._fetch.metadata.image
        leaders = [
            add_leader(image, topic.topic or topic.topic_id, data, data.partition_index, data.error_code)
            for topic in response.responses
            for data in topic.partitions
            if data.error_code
        ]
        if leaders and self._request.version >= FETCH_NODE_ENDPOINTS_SINCE:
            add_endpoints(image, self._request.listener.name, response, NodeEndpoint, leaders)


def _is_changed(state: FetchPartitionState, data: PartitionData) -> bool:
    return bool(
        data.error_code
        or data.records
        or data.diverging_epoch.epoch >= 0
        or data.preferred_read_replica >= 0
        or data.high_watermark != state.high_watermark
        or data.log_start_offset != state.log_start_offset
    )


# On controller listeners it is a fetch of __cluster_metadata: the Raft machine refuses everything else.
API = ApiDeclaration(ApiKey.FETCH, create, create_for_controller=raft_handler)
