"""Delivery: which batches go to which leader, what is resent, with which producer id and sequence number.

A shell adds payloads, runs the steps that `jobs` returns, and calls `jobs` again when one of them ends or
`next_due_s` has come. Rules:

- One batch of a partition is in flight at a time; a leader has a bounded number of requests.
- A sealed batch is resent unchanged until a leader responds: it may have been written.
- A leader that refuses a sequence number has written nothing: that batch, and only that one, is sealed again
  under a new producer id. Batches of other partitions keep theirs.
- Nothing is retried after its delivery time-out. If it may have been written, the next batch needs a new
  producer id, because the next sequence number is unknown.
- In a transaction a batch that cannot be delivered fails the transaction, and nothing more of it is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ottla.client.core.batches import Batch, PartitionQueue, Payload, ProducerId
from ottla.client.core.cluster import UNREACHABLE, ClusterCore
from ottla.client.core.steps import Call, Steps
from ottla.client.core.transactions import Transactions
from ottla.client.errors import BrokerError, ClientError, broker_error, raise_for
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse
from ottla.protocol.versions import PRODUCE_TOPIC_IDS_SINCE

INT32_MAX = 2**31 - 1
# The leader refused the sequence number, so nothing was written.
LOST_SEQUENCE = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)


class DeliveryLimits(NamedTuple):
    """How much goes into a request, how long a batch waits for more records, how many requests are in flight.

    With `spread`, the partitions of an idle leader are spread over all the requests that it may have, so that
    it works on one while the next is sent.
    """

    batch_bytes: int
    linger_ms: float
    request_bytes_max: int
    requests_per_leader_max: int
    spread: bool = False


class Delivery:
    """The produce side of a client. With `producer`, that id is given and never replaced."""

    def __init__(
        self,
        cluster: ClusterCore,
        limits: DeliveryLimits,
        *,
        acks: int,
        idempotent: bool,
        delivery_timeout_ms: float,
        transactions: Transactions | None = None,
        producer: ProducerId | None = None,
    ) -> None:
        self.cluster = cluster
        self.limits = limits
        self.acks = acks
        self.idempotent = idempotent
        self.delivery_timeout_ms = delivery_timeout_ms
        self.transactions = transactions
        self.queued_bytes = 0
        self.in_flight_bytes = 0
        # Set while the caller waits for delivery: batches do not linger then.
        self.flushing = 0
        self.next_due_s: float | None = None
        self._producer = producer
        self._is_producer_given = producer is not None
        self._is_acquiring = False
        self._is_adding = False
        self._queues: dict[tuple[str, int], PartitionQueue] = {}
        self._requests_at: dict[int, int] = {}

    # Input.

    def queue(self, topic: str, partition: int) -> PartitionQueue:
        queue = self._queues.get((topic, partition))
        if queue is None:
            queue = PartitionQueue(topic, partition, self.cluster.backoff())
            self._queues[topic, partition] = queue
        return queue

    def add(self, queue: PartitionQueue, payload: Payload) -> Batch:
        now_s = self.cluster.clock.now_s()
        batch = Batch(payload, now_s, now_s + self.delivery_timeout_ms / 1000)
        queue.batches.append(batch)
        self.queued_bytes += payload.size_bytes
        return batch

    def open_payload(self, queue: PartitionQueue, size_bytes: int) -> Payload | None:
        """The payload to which a record of this size can be added: the last one, if it was never sent."""
        if not queue.batches:
            return None
        last = queue.batches[-1]
        has_room = last.payload.size_bytes + size_bytes <= self.limits.batch_bytes
        return last.payload if last.data is None and last.attempts == 0 and has_room else None

    def grew(self, size_bytes: int) -> None:
        """Account for another record in a payload that was already added."""
        self.queued_bytes += size_bytes

    @property
    def is_empty(self) -> bool:
        return not any(queue.batches for queue in self._queues.values())

    def batches(self) -> Iterator[Batch]:
        for queue in self._queues.values():
            yield from queue.batches

    def drop_queued(self, error: Exception) -> None:
        """Fail everything that is not in flight."""
        for queue in self._queues.values():
            while len(queue.batches) > queue.in_flight:
                batch = queue.batches.pop()
                if batch.data is not None:
                    self._lose_sequence(batch, error)
                self._drop(batch, error)

    def _lose_sequence(self, batch: Batch, error: Exception) -> None:
        """A sealed batch is dropped that may have been written: its sequence number must not be reused."""
        if self.transactions is not None:
            failure = error if isinstance(error, ClientError) else ClientError(str(error))
            self.transactions.fail(failure, sequence_is_lost=True)
        elif batch.producer == self._producer:
            self._replace_producer_id()

    # Output.

    def jobs(self) -> list[Steps[None]]:
        """The steps to run now, concurrently; call again at `next_due_s` at the latest."""
        ready = self._ready()
        if not ready:
            return []
        if self.transactions is not None:
            return self._add_partitions(ready, self.transactions)
        if self.idempotent and self._producer is None:
            if self._is_acquiring:
                return []
            self._is_acquiring = True
            return [self._acquire_producer_id()]
        return self._send(ready)

    def _ready(self) -> list[PartitionQueue]:
        """The partitions whose first batch should be sent now."""
        now_s = self.cluster.clock.now_s()
        ready = []
        next_s: float | None = None
        for queue in self._queues.values():
            if queue.in_flight or not queue.batches:
                continue
            head = queue.batches[0]
            due_s = queue.not_before_s
            is_full = len(queue.batches) > 1 or head.payload.size_bytes >= self.limits.batch_bytes
            if not (is_full or head.attempts or self.flushing):
                due_s = max(due_s, head.created_s + self.limits.linger_ms / 1000)
            if due_s <= now_s:
                ready.append(queue)
            elif next_s is None or due_s < next_s:
                next_s = due_s
        self.next_due_s = next_s
        return ready

    def _add_partitions(self, ready: list[PartitionQueue], transactions: Transactions) -> list[Steps[None]]:
        """Send the batches of the transaction; one request at a time adds missing partitions."""
        new = transactions.not_added([queue.key for queue in ready])
        jobs = self._send([queue for queue in ready if queue.key not in new])
        if new and not self._is_adding:
            self._is_adding = True
            jobs.append(
                self._add_to_transaction([queue for queue in ready if queue.key in new], transactions)
            )
        return jobs

    def _add_to_transaction(self, queues: list[PartitionQueue], transactions: Transactions) -> Steps[None]:
        try:
            yield from transactions.add_partitions([queue.key for queue in queues])
        except ClientError as error:
            self._retry_or_fail_all(queues, error)
        finally:
            self._is_adding = False

    def _acquire_producer_id(self) -> Steps[None]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=INT32_MAX)

        def attempt() -> Steps[ProducerId]:
            response = yield from self.cluster.ask_any(request, InitProducerIdResponse)
            raise_for(response.error_code, detail="no producer id was assigned")
            return ProducerId(response.producer_id, response.producer_epoch)

        try:
            self._producer = yield from self.cluster.retrying(attempt)
        except ClientError as error:
            waiting = [queue for queue in self._queues.values() if queue.batches and not queue.in_flight]
            self._retry_or_fail_all(waiting, error)
        finally:
            self._is_acquiring = False

    def _send(self, ready: list[PartitionQueue]) -> list[Steps[None]]:
        """A request for each leader below its limit; the leaders of other partitions are looked up."""
        jobs: list[Steps[None]] = []
        groups: dict[int, list[PartitionQueue]] = {}
        for queue in ready:
            leader = self.cluster.known_leader(*queue.key)
            if leader < 0:
                leader = queue.found_leader
            if leader < 0:
                queue.in_flight = True
                jobs.append(self._find_leader(queue))
            else:
                groups.setdefault(leader, []).append(queue)
        for leader, queues in groups.items():
            jobs += [
                self._produce(leader, request, self._depart(leader, request))
                for request in self._requests(leader, queues)
            ]
        return jobs

    def _requests(self, leader: int, queues: list[PartitionQueue]) -> list[list[PartitionQueue]]:
        """The partitions in requests of bounded size, as many as the leader may have; others wait."""
        free = self.limits.requests_per_leader_max - self._requests_at.get(leader, 0)
        if free <= 0:
            return []
        count_max = len(queues)
        if self.limits.spread and free == self.limits.requests_per_leader_max:
            count_max = -(-len(queues) // free)
        requests: list[list[PartitionQueue]] = []
        size_bytes = 0
        for queue in queues:
            head_bytes = queue.batches[0].payload.size_bytes
            is_over = size_bytes + head_bytes > self.limits.request_bytes_max
            if not requests or is_over or len(requests[-1]) >= count_max:
                if len(requests) == free:
                    break
                requests.append([])
                size_bytes = 0
            requests[-1].append(queue)
            size_bytes += head_bytes
        return requests

    def _depart(self, leader: int, queues: list[PartitionQueue]) -> int:
        """Count a request as in flight; its size."""
        self._requests_at[leader] = self._requests_at.get(leader, 0) + 1
        size_bytes = 0
        for queue in queues:
            queue.in_flight = True
            queue.found_leader = -1
            size_bytes += queue.batches[0].payload.size_bytes
        self.in_flight_bytes += size_bytes
        return size_bytes

    def _find_leader(self, queue: PartitionQueue) -> Steps[None]:
        try:
            queue.found_leader = (yield from self.cluster.partition(*queue.key)).leader
        except ClientError as error:
            self._retry_or_fail(queue, error)
        finally:
            queue.in_flight = False

    def _produce(self, leader: int, queues: list[PartitionQueue], size_bytes: int) -> Steps[None]:
        """One Produce request with the first batch of each partition."""
        sealed = [queue for queue in queues if self._seal(queue)]
        try:
            if sealed:
                yield from self._exchange(leader, sealed)
        except ClientError as error:
            if isinstance(error, UNREACHABLE):
                self.cluster.view.expire_led_by(leader)
            self._retry_or_fail_all(sealed, error)
        finally:
            for queue in queues:
                queue.in_flight = False
            self._requests_at[leader] -= 1
            self.in_flight_bytes -= size_bytes

    def _seal(self, queue: PartitionQueue) -> bool:
        """False if the first batch cannot be built: it fails, and the others are sent."""
        transactions = self.transactions
        producer = self._producer if transactions is None else transactions.producer
        try:
            queue.seal_head(producer if self.idempotent else None, transactional=transactions is not None)
        except Exception as error:
            if transactions is not None:
                failure = ClientError(f"a batch could not be built: {error}")
                transactions.fail(failure, sequence_is_lost=False)
            self._drop(queue.batches.popleft(), error)
            return False
        return True

    def _exchange(self, leader: int, queues: list[PartitionQueue]) -> Steps[None]:
        cluster, transactions = self.cluster, self.transactions
        at_most = None if transactions is None else transactions.produce_version_max
        topics: dict[str, TopicProduceData] = {}
        for queue in queues:
            data = topics.get(queue.topic)
            if data is None:
                info = cluster.view.topics.get(queue.topic) or (yield from cluster.topic(queue.topic))
                data = topics[queue.topic] = TopicProduceData(name=queue.topic, topic_id=info.id)
                if info.id == ZERO_UUID and at_most is None:
                    at_most = PRODUCE_TOPIC_IDS_SINCE - 1
            data.partition_data.append(
                PartitionProduceData(index=queue.partition, records=queue.batches[0].data)
            )
        request = ProduceRequest(
            transactional_id=None if transactions is None else transactions.transactional_id,
            acks=self.acks,
            timeout_ms=int(cluster.options.request_timeout_ms),
            topic_data=list(topics.values()),
        )
        node = cluster.view.nodes.get(leader) or (yield from cluster.node(leader))
        if self.acks == 0:
            yield Call(node.address, request, None, at_most)
            for queue in queues:
                self._deliver_head(queue, -1, -1)
            return
        response: ProduceResponse = yield Call(node.address, request, ProduceResponse, at_most)
        names = {data.topic_id: name for name, data in topics.items()}
        answered = {
            (topic.name or names.get(topic.topic_id, ""), row.index): row
            for topic in response.responses
            for row in topic.partition_responses
        }
        for queue in queues:
            self._settle(queue, answered.get(queue.key), response)

    # Responses.

    def _settle(
        self, queue: PartitionQueue, row: PartitionProduceResponse | None, response: ProduceResponse
    ) -> None:
        """Handle the response for the first batch of a partition."""
        if row is None:
            self._refused(queue, ErrorCode.UNKNOWN_SERVER_ERROR, "the response leaves the partition out")
            return
        code, batch = row.error_code, queue.batches[0]
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._deliver_head(queue, row.base_offset, row.log_append_time_ms)
            return
        if code == ErrorCode.MESSAGE_TOO_LARGE and batch.payload.count > 1:
            self._replace_head(queue, batch.payload.split())
            return
        if code == ErrorCode.MESSAGE_TOO_LARGE or row.record_errors:
            try:
                left = batch.payload.without_refused(row)
            except ClientError as error:
                self._retry_or_fail(queue, error)
                return
            if left is not None:
                self._replace_head(queue, left)
                return
        details = [row.error_message or ""]
        details += [f"record {e.batch_index}: {e.batch_index_error_message}" for e in row.record_errors]
        self._refused(queue, code, "; ".join(filter(None, details)) or None)
        hint = row.current_leader
        if hint.leader_id >= 0:
            endpoints = [(each.node_id, each.host, each.port) for each in response.node_endpoints]
            self.cluster.view.hint(queue.topic, queue.partition, hint.leader_id, hint.leader_epoch, endpoints)

    def _refused(self, queue: PartitionQueue, code: int, detail: str | None) -> None:
        error = broker_error(code, topic=queue.topic, partition=queue.partition, detail=detail)
        self._retry_or_fail(queue, error)

    def _replace_head(self, queue: PartitionQueue, payloads: Sequence[Payload]) -> None:
        """Send these instead of the first batch, of which nothing was written."""
        old = queue.batches.popleft()
        self.queued_bytes -= old.payload.size_bytes
        for payload in reversed(payloads):
            batch = Batch(payload, old.created_s, old.deadline_s)
            batch.attempts = old.attempts + 1
            queue.batches.appendleft(batch)
            self.queued_bytes += payload.size_bytes

    def _retry_or_fail_all(self, queues: list[PartitionQueue], error: ClientError) -> None:
        for queue in queues:
            if queue.batches:  # an earlier batch may have failed the transaction and all queued batches
                self._retry_or_fail(queue, error)

    def _retry_or_fail(self, queue: PartitionQueue, error: ClientError) -> None:
        batch = queue.batches[0]
        batch.attempts += 1
        is_late = self.cluster.clock.now_s() >= batch.deadline_s
        transactions = self.transactions
        if transactions is not None:
            if is_late or not (error.retriable and transactions.takes_batches):
                transactions.fail(error, sequence_is_lost=batch.data is not None)
                self.drop_queued(error)
                if queue.in_flight:
                    self._drop(queue.batches.popleft(), error)
            else:
                self._retry_later(queue, error)
            return
        is_lost = (
            isinstance(error, BrokerError)
            and error.code in LOST_SEQUENCE
            and batch.producer is not None
            and not self._is_producer_given
        )
        if is_late or not (error.retriable or is_lost):
            if error.retriable and batch.data is not None and batch.producer == self._producer:
                self._replace_producer_id()
            self._drop(queue.batches.popleft(), error)
            return
        if is_lost:
            if batch.producer == self._producer:
                self._replace_producer_id()
            batch.data = None
        self._retry_later(queue, error)

    def _replace_producer_id(self) -> None:
        if not self._is_producer_given:
            self._producer = None

    def _retry_later(self, queue: PartitionQueue, error: ClientError) -> None:
        self.cluster.note(error, queue.topic)
        queue.not_before_s = self.cluster.clock.now_s() + queue.backoff.next_ms() / 1000

    def _deliver_head(self, queue: PartitionQueue, base_offset: int, log_append_time_ms: int) -> None:
        batch = queue.finish_head()
        self.queued_bytes -= batch.payload.size_bytes
        batch.payload.delivered(base_offset, log_append_time_ms)

    def _drop(self, batch: Batch, error: Exception) -> None:
        self.queued_bytes -= batch.payload.size_bytes
        assert self.queued_bytes >= 0, "more was delivered than added"
        batch.payload.failed(error)
