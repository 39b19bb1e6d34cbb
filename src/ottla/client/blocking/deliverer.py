"""Delivers encoded record batches: one at a time of each partition, retried in order, written once.

A leader has up to two requests, for different partitions: it works on one while the other is on its way, and
order survives every retry.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa

from ottla.client.aio.producer import INT32_MAX, LOST_SEQUENCE, PRODUCE_VERSION_WITHOUT_TOPIC_IDS
from ottla.client.blocking.cluster import SyncCluster
from ottla.client.blocking.connection import SyncConnection
from ottla.client.core.retry import Deadline
from ottla.client.errors import BrokerError, ClientError, broker_error, raise_for
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse
from ottla.records.arrow import LaidOut, RecordColumns, batches_to_arrow
from ottla.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    increment_sequence,
)
from ottla.records.build import compressed, finish_batch

REQUEST_BYTES_MAX = 8 * 1024 * 1024
REQUESTS_MAX = 2  # unanswered ones of one leader
KEY_SHOWN_BYTES_MAX = 64

# What a broker refused for good: topic, partition, rows, and why.
Reject = Callable[[str, int, pa.RecordBatch, str], None]


class Identity(NamedTuple):
    """Who writes; with a transactional id, who began the transaction that all of it belongs to."""

    producer_id: int
    producer_epoch: int
    transactional_id: str | None = None


# Whose batches have no sequence.
NOBODY = Identity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class _Encoded:
    """A record batch on its way. It gets its header when it is sent, for `identity` if it has one."""

    __slots__ = ("base_timestamp", "count", "data", "deadline", "identity", "max_timestamp")

    def __init__(self, data: bytearray, rows: LaidOut, deadline: Deadline) -> None:
        self.data = data
        self.count = rows.records_count
        self.base_timestamp = rows.base_timestamp
        self.max_timestamp = rows.max_timestamp
        self.deadline = deadline
        self.identity: Identity | None = None


class _Queue:
    """The batches of one partition in order."""

    __slots__ = ("batches", "identity", "in_flight", "next_sequence", "partition", "topic")

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.batches: deque[_Encoded] = deque()
        self.in_flight = False
        self.identity: Identity | None = None
        self.next_sequence = 0


class _Lane:
    """A connection to one leader for as long as there is something to send, and the unanswered requests."""

    __slots__ = ("close", "connection", "sent")

    def __init__(self, cluster: SyncCluster, node_id: int) -> None:
        stack = contextlib.ExitStack()
        self.connection: SyncConnection = stack.enter_context(cluster.connection_to(node_id))
        self.close = stack.close
        self.sent: deque[list[_Queue]] = deque()


class Deliverer:
    """Takes encoded batches; `flush` returns when brokers have them all, or raises what the first one met."""

    def __init__(
        self,
        cluster: SyncCluster,
        *,
        acks: int,
        idempotent: bool,
        delivery_timeout_ms: float,
        codec: int,
        level: int | None,
        identity: Identity | None = None,
        reject: Reject | None = None,
    ) -> None:
        self.cluster = cluster
        self.acks = acks
        self.idempotent = idempotent
        self.delivery_timeout_ms = delivery_timeout_ms
        self.queued_bytes = 0
        self.unsent_bytes = 0
        self.has_sent = False
        self.delivered_records = 0
        self.delivered_bytes = 0
        self.delivered_batches = 0
        self.end_offsets: dict[tuple[str, int], int] = {}
        self._codec = codec
        self._level = level
        self._identity = identity
        # Somebody else has given it, and to start over under another would be to write twice.
        self._is_identity_given = identity is not None
        self._admit: Callable[[Sequence[tuple[str, int]]], None] | None = None
        self._admitted: dict[tuple[str, int], None] = {}
        self._version_max: int | None = None
        self._reject = reject
        self._refused: deque[tuple[str, int, pa.RecordBatch, str]] = deque()
        self._queues: dict[tuple[str, int], _Queue] = {}
        self._lanes: dict[int, _Lane] = {}
        self._backoff = cluster.backoff()
        self._failing = False

    def begin(
        self,
        identity: Identity,
        *,
        admit: Callable[[Sequence[tuple[str, int]]], None] | None = None,
        version_max: int | None = None,
    ) -> None:
        """Write under this identity from now on; `admit` hears of each partition before its first batch."""
        assert not self.queued_bytes, "batches of the transaction before are still to be delivered"
        self._identity, self._is_identity_given = identity, True
        self._admit, self._admitted = admit, {}
        self.has_sent = False
        self._version_max = version_max

    def give_up(self) -> None:
        """Forget what was not delivered."""
        self.close()
        self._queues.clear()
        self._refused.clear()
        self.queued_bytes = self.unsent_bytes = 0

    def add(self, topic: str, partition: int, rows: LaidOut) -> None:
        queue = self._queues.get((topic, partition))
        if queue is None:
            queue = self._queues[topic, partition] = _Queue(topic, partition)
        queue.batches.append(self._encoded(rows, Deadline(self.delivery_timeout_ms)))

    def _encoded(self, rows: LaidOut, deadline: Deadline) -> _Encoded:
        data = compressed(rows.data, self._codec, self._level)
        self.queued_bytes += len(data)
        self.unsent_bytes += len(data)
        return _Encoded(data, rows, deadline)

    def turn(self, *, waits: bool = True) -> None:
        """Take the answers that are due, or are there already, then send the next batch of each partition."""
        for node_id, lane in list(self._lanes.items()):
            due = waits
            while lane.sent and (due or lane.connection.has_answer()):
                self._collect(node_id, lane)
                due = False
        if self._failing:  # here, or when the last turn sent
            time.sleep(self._backoff.next_ms() / 1000)
        else:
            self._backoff.reset()
        self._failing = False
        self._dispatch()
        # Only now: who gets them may add batches, and take a turn to send those.
        while self._refused:
            assert self._reject is not None
            self._reject(*self._refused.popleft())

    def flush(self) -> None:
        while any(queue.batches for queue in self._queues.values()):
            self.turn()
        self.close()

    def close(self) -> None:
        lanes, self._lanes = list(self._lanes.values()), {}
        for lane in lanes:
            lane.close()

    # Sending.

    def _dispatch(self) -> None:
        for node_id, queues in self._ready().items():
            lane = self._lanes.get(node_id)
            if lane is None or not lane.sent:
                # Two halves, so that there is always work at both ends.
                middle = (len(queues) + 1) // 2
                requests = [queues[:middle], queues[middle:]]
            else:
                requests = [queues]
            for request in filter(None, requests):
                try:
                    self._send(node_id, request)
                except ClientError as error:
                    self._break(node_id, request, error)
                    break

    def _ready(self) -> dict[int, list[_Queue]]:
        """The partitions that have something to send, by leaders that can take it."""
        groups: dict[int, list[_Queue]] = {}
        sizes_bytes: dict[int, int] = {}
        for queue in self._queues.values():
            if queue.in_flight or not queue.batches:
                continue
            try:
                leader = self.cluster.partition(queue.topic, queue.partition).leader
            except ClientError as error:
                self._retry_or_raise(queue, error)
                continue
            if leader in self._lanes and len(self._lanes[leader].sent) >= REQUESTS_MAX:
                continue  # with its answers come the next batches of all partitions together
            size_bytes = sizes_bytes.get(leader, 0) + len(queue.batches[0].data)
            if leader not in groups or size_bytes <= REQUEST_BYTES_MAX:
                sizes_bytes[leader] = size_bytes
                groups.setdefault(leader, []).append(queue)
        return groups

    def _send(self, node_id: int, queues: list[_Queue]) -> None:
        for queue in queues:
            self._seal_first(queue)
        if self._admit is not None:
            new = [key for queue in queues if (key := (queue.topic, queue.partition)) not in self._admitted]
            if new:
                self.has_sent = True
                self._admit(new)
                self._admitted.update(dict.fromkeys(new))
        lane = self._lanes.get(node_id)
        if lane is None:
            lane = self._lanes[node_id] = _Lane(self.cluster, node_id)
        at_most = self._version_max
        topics: dict[str, TopicProduceData] = {}
        for queue in queues:
            data = topics.get(queue.topic)
            if data is None:
                info = self.cluster.topic(queue.topic)
                data = topics[queue.topic] = TopicProduceData(name=queue.topic, topic_id=info.id)
                if info.id == ZERO_UUID and at_most is None:
                    at_most = PRODUCE_VERSION_WITHOUT_TOPIC_IDS
            data.partition_data.append(
                PartitionProduceData(index=queue.partition, records=queue.batches[0].data)
            )
        self.has_sent = True
        timeout_ms = self.cluster.options.request_timeout_ms
        request = ProduceRequest(
            transactional_id=self._identity.transactional_id if self._identity is not None else None,
            acks=self.acks,
            timeout_ms=int(timeout_ms),
            topic_data=list(topics.values()),
        )
        unanswered = self.acks == 0
        lane.connection.send(request, timeout_ms=timeout_ms, at_most=at_most, unanswered=unanswered)
        if unanswered:
            for queue in queues:
                self._delivered(queue, -1)
        else:
            lane.sent.append(queues)
            for queue in queues:
                queue.in_flight = True
                self.unsent_bytes -= len(queue.batches[0].data)

    def _seal_first(self, queue: _Queue) -> None:
        """Write producer and sequence into the first batch; a retry keeps them, or it could count twice."""
        identity, batch = NOBODY, queue.batches[0]
        if self.idempotent:
            identity = self._identity = self._identity or self._new_identity()
        if queue.identity != identity:
            queue.identity, queue.next_sequence = identity, 0
        if batch.identity == identity:
            return
        finish_batch(
            batch.data,
            batch.count,
            batch.base_timestamp,
            batch.max_timestamp,
            codec=self._codec,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=queue.next_sequence if self.idempotent else NO_SEQUENCE,
            transactional=identity.transactional_id is not None,
        )
        batch.identity = identity

    def _new_identity(self) -> Identity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=INT32_MAX)

        def attempt() -> Identity:
            response = self.cluster.ask_any(request, InitProducerIdResponse)
            raise_for(response.error_code, detail="no producer id was given")
            return Identity(response.producer_id, response.producer_epoch)

        return self.cluster.retrying(attempt)

    # Answers.

    def _collect(self, node_id: int, lane: _Lane) -> None:
        queues = lane.sent.popleft()
        self._land(queues)
        try:
            response = lane.connection.receive(ProduceResponse)
        except ClientError as error:
            self._break(node_id, queues, error)
            return
        view = self.cluster.view
        answered = {
            (topic.name or view.name_of(topic.topic_id) or "", row.index): row
            for topic in response.responses
            for row in topic.partition_responses
        }
        for queue in queues:
            self._settle(queue, answered.get((queue.topic, queue.partition)))

    def _land(self, queues: list[_Queue]) -> None:
        """Their batches are no longer under way, whatever became of them."""
        for queue in queues:
            queue.in_flight = False
            self.unsent_bytes += len(queue.batches[0].data)

    def _break(self, node_id: int, queues: list[_Queue], error: ClientError) -> None:
        """Nothing is known of these, nor of what was sent behind them."""
        lane = self._lanes.pop(node_id, None)
        if lane is not None:
            lane.close()
            while lane.sent:
                lost = lane.sent.popleft()
                self._land(lost)
                queues = queues + lost
        self.cluster.expire_led_by(node_id)
        for queue in queues:
            self._retry_or_raise(queue, error)

    def _settle(self, queue: _Queue, row: PartitionProduceResponse | None) -> None:
        code = row.error_code if row is not None else ErrorCode.UNKNOWN_SERVER_ERROR
        if row is not None and code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._delivered(queue, row.base_offset)
        elif code == ErrorCode.MESSAGE_TOO_LARGE and queue.batches[0].count > 1:
            self._split(queue)
        elif row is not None and (code == ErrorCode.MESSAGE_TOO_LARGE or row.record_errors):
            self._refused_rows(queue, row)
        else:
            detail = (row.error_message or None) if row is not None else "the broker left the partition out"
            self._retry_or_raise(
                queue, broker_error(code, topic=queue.topic, partition=queue.partition, detail=detail)
            )

    def _refused_rows(self, queue: _Queue, row: PartitionProduceResponse) -> None:
        """Records that no broker would take: who collects such gets them, else say which."""
        rows: pa.RecordBatch = batches_to_arrow([queue.batches[0].data])
        reasons = {e.batch_index: e.batch_index_error_message or "" for e in row.record_errors}
        if row.error_code == ErrorCode.MESSAGE_TOO_LARGE:
            reasons = {0: f"{len(queue.batches[0].data)} bytes are more than the topic takes"}
        if self._reject is None or not all(0 <= index < rows.num_rows for index in reasons):
            details = [row.error_message or ""]
            for index, text in reasons.items():
                key = shown_key(rows.column("key")[index].as_py()) if index < rows.num_rows else "?"
                details.append(f"record {index} with key {key}: {text}")
            detail = "; ".join(filter(None, details))
            raise broker_error(row.error_code, topic=queue.topic, partition=queue.partition, detail=detail)
        batch = self._drop_first(queue)
        kept = rows.filter(pa.array([index not in reasons for index in range(rows.num_rows)]))
        if kept.num_rows:
            self._encode_first(queue, kept, batch)
        name = ErrorCode(row.error_code).name
        for index, text in reasons.items():
            self._refused.append((queue.topic, queue.partition, rows.slice(index, 1), f"{name}: {text}"))

    def _delivered(self, queue: _Queue, base_offset: int) -> None:
        batch = queue.batches.popleft()
        queue.next_sequence = increment_sequence(queue.next_sequence, batch.count)
        self.queued_bytes -= len(batch.data)
        self.unsent_bytes -= len(batch.data)
        self.delivered_records += batch.count
        self.delivered_bytes += len(batch.data)
        self.delivered_batches += 1
        if base_offset >= 0:
            self.end_offsets[queue.topic, queue.partition] = base_offset + batch.count

    def _split(self, queue: _Queue) -> None:
        """Two batches for one that the broker found too large; nothing of it was written."""
        batch = self._drop_first(queue)
        rows: pa.RecordBatch = batches_to_arrow([batch.data])
        middle = rows.num_rows // 2
        for part in (rows.slice(middle), rows.slice(0, middle)):
            self._encode_first(queue, part, batch)

    def _drop_first(self, queue: _Queue) -> _Encoded:
        batch = queue.batches.popleft()
        self.queued_bytes -= len(batch.data)
        self.unsent_bytes -= len(batch.data)
        return batch

    def _encode_first(self, queue: _Queue, rows: pa.RecordBatch, batch: _Encoded) -> None:
        (part,) = RecordColumns(rows, 0).lay_out(0, rows.num_rows, len(batch.data) + INT32_MAX // 2)
        queue.batches.appendleft(self._encoded(part, batch.deadline))

    def _retry_or_raise(self, queue: _Queue, error: ClientError) -> None:
        batch = queue.batches[0]
        code = error.code if isinstance(error, BrokerError) else None
        if code in LOST_SEQUENCE and self.idempotent and not self._is_identity_given:
            # The broker refused the sequence number, so nothing was written: start over under a new id, once
            # for all that was under way.
            if batch.identity == self._identity:
                self._identity = None
        elif not error.retriable:
            raise error
        if batch.deadline.passed:
            raise error
        self._failing = True
        if not isinstance(error, BrokerError) or error.stale_metadata:
            self.cluster.view.expire(queue.topic)


def shown_key(key: bytes | None) -> str:
    """A key as errors name it."""
    if key is None:
        return "null"
    text = repr(key[:KEY_SHOWN_BYTES_MAX])
    return text if len(key) <= KEY_SHOWN_BYTES_MAX else f"{text}... ({len(key)} bytes)"
