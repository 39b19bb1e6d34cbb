"""The core's delivery on blocking sockets: a connection per leader, two requests in flight each."""

from __future__ import annotations

import contextlib
import time
from collections import deque

import pyarrow as pa

from ottla.client.blocking.arrow_batch import ArrowBatch, BatchFormat, Reject
from ottla.client.blocking.cluster import SyncCluster
from ottla.client.blocking.connection import SyncConnection
from ottla.client.core.batches import ProducerId
from ottla.client.core.delivery import Delivery, DeliveryLimits
from ottla.client.core.steps import Call, Effect, Steps, request_for
from ottla.client.core.transactions import Transactions
from ottla.client.errors import ClientError
from ottla.client.options import Address, ClientOptions
from ottla.protocol.messages.produce_response import ProduceResponse
from ottla.records.arrow import LaidOut

REQUEST_BYTES_MAX = 8 * 1024 * 1024
REQUESTS_PER_LEADER_MAX = 2


class _Lane:
    """A connection to one leader while there is something to send, and jobs that wait for its responses."""

    __slots__ = ("close", "connection", "waiting")

    def __init__(self, cluster: SyncCluster, address: Address) -> None:
        stack = contextlib.ExitStack()
        self.connection: SyncConnection = stack.enter_context(cluster.connection(address))
        self.close = stack.close
        self.waiting: deque[Steps[None]] = deque()


class ArrowDelivery:
    """Accepts encoded rows; `flush` returns when brokers have acknowledged all, or raises the first error.

    After an error nothing more is delivered: the error is raised again until `drop_all`.
    """

    def __init__(
        self,
        cluster: SyncCluster,
        options: ClientOptions,
        batch_bytes: int,
        *,
        producer: ProducerId | None = None,
        transactions: Transactions | None = None,
        reject: Reject | None = None,
    ) -> None:
        self.cluster = cluster
        self.delivered_records = 0
        self.delivered_bytes = 0
        self.delivered_batches = 0
        self.end_offsets: dict[tuple[str, int], int] = {}
        self._core = Delivery(
            cluster.core,
            DeliveryLimits(batch_bytes, 0, REQUEST_BYTES_MAX, REQUESTS_PER_LEADER_MAX, spread=True),
            acks=options.acks_code,
            idempotent=options.is_idempotent or producer is not None,
            delivery_timeout_ms=options.delivery_timeout_ms,
            producer=producer,
            transactions=transactions,
        )
        self._reject = reject
        self._refused: deque[tuple[str, int, pa.RecordBatch, str]] = deque()
        self._format = BatchFormat(
            options.codec, options.compression_level, self, None if reject is None else self._refuse
        )
        self._lanes: dict[Address, _Lane] = {}
        self._error: Exception | None = None

    @property
    def queued_bytes(self) -> int:
        return self._core.queued_bytes

    @property
    def unsent_bytes(self) -> int:
        return self._core.queued_bytes - self._core.in_flight_bytes

    def add(self, topic: str, partition: int, rows: LaidOut) -> None:
        self._core.add(self._core.queue(topic, partition), ArrowBatch(topic, partition, rows, self._format))

    def advance(self, *, waits: bool = True) -> None:
        """Receive available responses, or wait for one from each leader; then send the next batches."""
        for address, lane in list(self._lanes.items()):
            due = waits
            while lane.waiting and (due or lane.connection.has_answer()):
                self._receive(address, lane)
                due = False
        started = self._start_jobs()
        if waits and not started and not any(lane.waiting for lane in self._lanes.values()):
            self._wait_until_due()
            self._start_jobs()
        # Only now: `reject` may add batches and send them.
        while self._refused:
            assert self._reject is not None
            self._reject(*self._refused.popleft())
        if self._error is not None:
            raise self._error

    def flush(self) -> None:
        if self._error is not None:
            raise self._error
        while not self._core.is_empty:
            self.advance()
        self.close()

    def drop_all(self, error: ClientError) -> None:
        """Drop undelivered batches, after the responses to those in flight."""
        self._core.drop_queued(error)
        for address, lane in list(self._lanes.items()):
            while lane.waiting:
                self._receive(address, lane)
                self._core.drop_queued(error)
        self.close()
        self._refused.clear()
        self._error = None

    def close(self) -> None:
        lanes, self._lanes = list(self._lanes.values()), {}
        for lane in lanes:
            for job in lane.waiting:
                job.close()
            lane.close()

    # Outcomes of batches.

    def delivered(self, topic: str, partition: int, base_offset: int, count: int, size_bytes: int) -> None:
        self.delivered_records += count
        self.delivered_bytes += size_bytes
        self.delivered_batches += 1
        if base_offset >= 0:
            self.end_offsets[topic, partition] = base_offset + count

    def failed(self, error: Exception) -> None:
        self._error = self._error or error

    def _refuse(self, topic: str, partition: int, rows: pa.RecordBatch, reason: str) -> None:
        self._refused.append((topic, partition, rows, reason))

    # Jobs.

    def _start_jobs(self) -> bool:
        """Run the jobs of the core up to their Produce requests; whether there were any."""
        started = False
        while self._error is None:
            jobs = self._core.jobs()
            if not jobs:
                break
            for job in jobs:
                self._continue(job, next(job, None))
            started = True
        return started

    def _wait_until_due(self) -> None:
        due_s = self._core.next_due_s
        if due_s is not None:
            time.sleep(max(0.0, due_s - self.cluster.core.clock.now_s()))

    def _continue(self, job: Steps[None], effect: Effect | None) -> None:
        """Serve what a job yields until it waits for a Produce response, or ends."""
        while effect is not None:
            try:
                if isinstance(effect, Call) and effect.response in (ProduceResponse, None):
                    if self._send(effect, job):
                        return
                    result = None
                else:
                    result = self.cluster.serve(effect)
            except ClientError as error:
                effect = _thrown(job, error)
            else:
                effect = _sent(job, result)

    def _send(self, call: Call, job: Steps[None]) -> bool:
        """Whether the job waits for a response."""
        lane = self._lanes.get(call.address)
        if lane is None:
            lane = self._lanes[call.address] = _Lane(self.cluster, call.address)
        message = request_for(call.message, lane.connection)
        is_unanswered = call.response is None
        try:
            lane.connection.send(
                message,
                timeout_ms=self.cluster.options.request_timeout_ms,
                at_most=call.at_most,
                unanswered=is_unanswered,
            )
        except ClientError as error:
            self._break(call.address, error)
            raise
        if is_unanswered:
            return False
        lane.waiting.append(job)
        return True

    def _receive(self, address: Address, lane: _Lane) -> None:
        job = lane.waiting.popleft()
        try:
            response = lane.connection.receive(ProduceResponse)
        except ClientError as error:
            self._continue(job, _thrown(job, error))
            self._break(address, error)
        else:
            self._continue(job, _sent(job, response))

    def _break(self, address: Address, error: ClientError) -> None:
        """The outcome of every request on this connection is unknown."""
        lane = self._lanes.pop(address, None)
        if lane is None:
            return
        lane.close()
        while lane.waiting:
            job = lane.waiting.popleft()
            self._continue(job, _thrown(job, error))


def _sent(job: Steps[None], result: object) -> Effect | None:
    try:
        return job.send(result)
    except StopIteration:
        return None


def _thrown(job: Steps[None], error: ClientError) -> Effect | None:
    try:
        return job.throw(error)
    except StopIteration:
        return None
