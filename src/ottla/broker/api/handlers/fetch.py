"""Fetch (1): hands out batches as they lie in the log, or waits until there are enough of them.

This is the way of consumers; followers are served by `replicas/follower_fetch.py`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ottla.broker.api.fetch_sessions import FetchContext, FetchPartitionState, SessionError
from ottla.broker.api.leader_hints import add_endpoints, add_leader
from ottla.broker.net.promise import Promise
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
from ottla.storage.errors import OffsetOutOfRange, StorageError

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node
    from ottla.broker.replicas.partition import Partition

API_KEY = 1
FIRST_VERSION_WITH_RACK = 11  # and with it followers that serve consumers
FIRST_VERSION_WITH_LEADERS = 12
FIRST_VERSION_WITH_TOPIC_IDS = 13
FIRST_VERSION_WITH_REPLICA_STATE = 15
FIRST_VERSION_WITH_ENDPOINTS = 16
READ_COMMITTED = 1
WAIT_MS_MAX = 2**31 - 1

log = logging.getLogger("ottla.fetch")


def handle(broker: Node, request: Request, message: FetchRequest) -> Any:
    with_state = request.version >= FIRST_VERSION_WITH_REPLICA_STATE
    if (message.replica_state.replica_id if with_state else message.replica_id) >= 0:
        return broker.replicas.follower_fetches.serve(request, message)
    uses_topic_ids = request.version >= FIRST_VERSION_WITH_TOPIC_IDS
    try:
        context = broker.fetch_sessions.open(message, uses_topic_ids, broker.clock())
    except SessionError as error:
        return FetchResponse(error_code=error.code)
    fetch = _Fetch(broker, request, message, context)
    fetch.read()
    if fetch.satisfied or message.max_wait_ms <= 0 or not context.partitions:
        return fetch.response()
    return fetch.wait()


class _Fetch:
    """One fetch from its first look at the logs to its response."""

    __slots__ = (
        "_broker",
        "_bytes",
        "_context",
        "_deadline",
        "_failed",
        "_message",
        "_promise",
        "_read_again",
        "_request",
        "_results",
        "_watched",
    )

    def __init__(self, broker: Node, request: Request, message: FetchRequest, context: FetchContext) -> None:
        self._broker = broker
        self._request = request
        self._message = message
        self._context = context
        self._results: list[tuple[FetchPartitionState, PartitionData]] = []
        self._bytes = 0
        self._failed = False  # some partition answers with an error or a divergence: tell at once
        self._promise: Promise[FetchResponse]
        self._deadline: asyncio.TimerHandle
        self._watched: list[Partition] = []
        self._read_again = False

    @property
    def satisfied(self) -> bool:
        return self._failed or self._bytes >= self._message.min_bytes

    # -- reading

    def read(self) -> None:
        """Look at every partition; the first that has data gives at least one whole batch (KIP-74)."""
        self._results.clear()
        self._bytes = 0
        self._failed = False
        left_bytes = min(self._message.max_bytes, self._broker.fetch_max_bytes)
        for state in self._context.partitions:
            data = self._read_partition(state, left_bytes)
            size = len(data.records) if data.records is not None else 0
            left_bytes = max(0, left_bytes - size)
            self._bytes += size
            self._results.append((state, data))

    def _read_partition(self, state: FetchPartitionState, left_bytes: int) -> PartitionData:
        index = state.key.partition
        found = self._broker.partitions.find(*state.key)
        if isinstance(found, ErrorCode):
            return self._error(index, found)
        partition = found
        refused = partition.check_fetch(
            state.current_leader_epoch, from_follower=self._request.version >= FIRST_VERSION_WITH_RACK
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
            and self._is_sent_away(partition, state, data)
        ):
            return data
        if (
            high_watermark < state.fetch_offset <= partition.log.log_end_offset
            and not partition.offsets_are_settled
        ):
            # The reader has it from somebody who knew more: to tell it an end before that would be wrong.
            data = PartitionData(partition_index=index, high_watermark=-1, records=b"")
            data.error_code = ErrorCode.OFFSET_NOT_AVAILABLE
            return data  # unless it moves before the wait is over
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
        except StorageError as error:
            log.error("fetch failed: partition=%s-%d error=%s", partition.topic, index, error)
            return self._error(index, ErrorCode.KAFKA_STORAGE_ERROR)
        return data

    def _diverges(self, partition: Partition, state: FetchPartitionState, data: PartitionData) -> bool:
        """Does the reader's log end in an epoch that ended earlier here? Then tell where, and no records."""
        epoch, end_offset = partition.log.leader_epochs.end_offset_for(
            state.last_fetched_epoch, partition.log.log_end_offset
        )
        if epoch >= 0 and (epoch < state.last_fetched_epoch or end_offset < state.fetch_offset):
            data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
            data.records = b""
            self._failed = True
            return True
        return False

    def _is_sent_away(self, partition: Partition, state: FetchPartitionState, data: PartitionData) -> bool:
        """Is there a replica nearer to the consumer? Then tell which, and no records (KIP-392)."""
        broker = self._broker
        near = broker.read_replicas.nearest(partition, self._message.rack_id, state.fetch_offset)
        if near == broker.node_id:
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
        """It is kept when enough has arrived, something went wrong, or max_wait_ms is over."""
        loop = asyncio.get_running_loop()
        self._promise = Promise()
        self._deadline = loop.call_later(min(self._message.max_wait_ms, WAIT_MS_MAX) / 1000, self._time_is_up)
        for state in self._context.partitions:
            found = self._broker.partitions.find(*state.key)
            if not isinstance(found, ErrorCode):
                found.watch(self._moved)
                self._watched.append(found)
        self._promise.add_done_callback(self._release)
        return self._promise

    def _moved(self) -> None:
        """A partition moved. Look again once per turn of the loop, however many batches that turn appends."""
        if not self._read_again:
            self._read_again = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        self._read_again = False
        if not self._promise.done():
            self.read()
            if self.satisfied:
                self._promise.set_result(self.response())

    def _time_is_up(self) -> None:
        if not self._promise.done():
            self.read()
            self._promise.set_result(self.response())

    def _release(self, _: Promise[FetchResponse]) -> None:
        self._deadline.cancel()
        for partition in self._watched:
            partition.unwatch(self._moved)
        self._watched.clear()

    # -- answering

    def response(self) -> FetchResponse:
        context = self._context
        answer = FetchResponse(session_id=context.session_id)
        topic_answers: dict[Any, FetchableTopicResponse] = {}
        for state, data in self._results:
            if context.incremental and not _is_news(state, data):
                continue
            state.high_watermark = -1 if data.error_code else data.high_watermark
            state.log_start_offset = data.log_start_offset
            topic = state.key.topic
            topic_answer = topic_answers.get(topic)
            if topic_answer is None:
                topic_answer = topic_answers[topic] = (
                    FetchableTopicResponse(topic_id=topic)
                    if isinstance(topic, bytes)
                    else FetchableTopicResponse(topic=topic)
                )
                answer.responses.append(topic_answer)
            topic_answer.partitions.append(data)
            if context.session is not None and data.records and state.key in context.session.partitions:
                # Whoever was served goes to the end of the line, so that a small max_bytes starves nobody.
                context.session.partitions.move_to_end(state.key)
        if self._failed and self._request.version >= FIRST_VERSION_WITH_LEADERS:
            self._tell_leaders(answer)
        return answer

    def _tell_leaders(self, answer: FetchResponse) -> None:
        leaders = [
            add_leader(
                self._broker, topic.topic or topic.topic_id, data, data.partition_index, data.error_code
            )
            for topic in answer.responses
            for data in topic.partitions
            if data.error_code
        ]
        if leaders and self._request.version >= FIRST_VERSION_WITH_ENDPOINTS:
            add_endpoints(self._broker, self._request.listener.name, answer, NodeEndpoint, leaders)


def _is_news(state: FetchPartitionState, data: PartitionData) -> bool:
    return bool(
        data.error_code
        or data.records
        or data.diverging_epoch.epoch >= 0
        or data.preferred_read_replica >= 0
        or data.high_watermark != state.high_watermark
        or data.log_start_offset != state.log_start_offset
    )
