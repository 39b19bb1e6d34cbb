"""The producer: takes records, batches them per partition, delivers them in order."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from ottla.client.aio.cluster import ClusterClient
from ottla.client.aio.record_batches import Batch, Delivery, Headers, PartitionQueue, ProducerId, size_of
from ottla.client.aio.transactional import TransactionalSending
from ottla.client.aio.transactions import Transactions
from ottla.client.core.partitioner import partition_for_key
from ottla.client.core.retry import Backoff
from ottla.client.errors import BrokerError, ClientError, ClosedError, broker_error, raise_for
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse
from ottla.records.compression import CODEC_BY_NAME

ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}
PRODUCE_VERSION_WITHOUT_TOPIC_IDS = 12
ABORT_AT_CLOSE_MS = 5_000
REQUEST_BYTES_MAX = 16 * 1024 * 1024
INT32_MAX = 2**31 - 1
# The broker refused the sequence number, so nothing was written: start over under a new producer id.
LOST_SEQUENCE = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)


class Producer(TransactionalSending):
    """Sends records to topics.

    async with Producer("localhost:9092", compression="zstd") as producer:
        delivery = await producer.send("orders", b"value", key=b"customer 7")
        print(await delivery)                    # partition and offset, once the broker has it

    Records with a key go to the partition the Java client would choose. With acks="all" (the default) the
    producer is idempotent: a batch that had to be sent twice is written once. Leaving the context delivers
    what is left.

    With a `transactional_id` all records are sent in transactions:

        async with Producer("localhost:9092", transactional_id="billing-1") as producer:
            async with producer.transaction():
                await producer.send("orders", b"value")
                await producer.send_offsets_to_transaction(consumer.consumed_offsets(), consumer)

    A transaction that is not ended within `transaction_timeout_ms` is aborted by the cluster. With
    `two_phase_commit` it waits for ever: see `prepare_transaction`.
    """

    def __init__(
        self,
        cluster: ClusterClient | str | Sequence[str],
        *,
        acks: int | str = "all",
        idempotent: bool | None = None,
        compression: str = "none",
        batch_bytes: int = 128 * 1024,
        linger_ms: float = 5,
        buffer_bytes_max: int = 32 * 1024 * 1024,
        delivery_timeout_ms: float = 120_000,
        client_id: str = "ottla",
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        two_phase_commit: bool = False,
    ) -> None:
        if str(acks) not in ACKS:
            raise ValueError(f"acks={acks!r}: expected 0, 1 or 'all'")
        if compression not in CODEC_BY_NAME:
            raise ValueError(f"compression={compression!r}: expected one of {', '.join(CODEC_BY_NAME)}")
        super().__init__(cluster, client_id=client_id)
        self.acks = ACKS[str(acks)]
        if idempotent and self.acks != -1:
            raise ValueError(f"acks={acks!r}: an idempotent producer needs acks='all'")
        self.idempotent = self.acks == -1 if idempotent is None else idempotent
        self._transactions: Transactions | None = None
        if transactional_id is not None:
            if not transactional_id or not self.idempotent:
                raise ValueError("transactional_id: needs a name, acks='all' and an idempotent producer")
            self._transactions = Transactions(
                self.cluster, transactional_id, transaction_timeout_ms, two_phase_commit
            )
        elif two_phase_commit:
            raise ValueError("two_phase_commit needs a transactional_id")
        self.batch_bytes = batch_bytes
        self.linger_ms = linger_ms
        self.buffer_bytes_max = buffer_bytes_max
        self.delivery_timeout_ms = delivery_timeout_ms
        self._codec = CODEC_BY_NAME[compression]
        self._queues: dict[tuple[str, int], PartitionQueue] = {}
        self._sticky: dict[str, int] = {}
        self._buffered_bytes = 0
        self._room = asyncio.Event()
        self._wake = asyncio.Event()
        self._flushing = 0
        self._closed = False
        self._sender: asyncio.Task[None] | None = None
        self._requests: set[asyncio.Task[None]] = set()
        self._producer: ProducerId | None = None
        self._producer_lock = asyncio.Lock()

    # What users call.

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Headers | Mapping[str, bytes | None] = (),
        timestamp_ms: int | None = None,
    ) -> asyncio.Future[Delivery]:
        """Take a record; the future tells where it ended up. Waits while too much is undelivered.

        Raises UnknownTopicError or another ClientError when the topic cannot be found; what happens later on
        the way comes through the future.
        """
        for name, content in (("value", value), ("key", key)):
            if content is not None and not isinstance(content, bytes | bytearray | memoryview):
                raise TypeError(
                    f"{name} must be bytes or None, not {type(content).__name__}: encode it first"
                )
        pairs = tuple(headers.items()) if isinstance(headers, Mapping) else tuple(headers)
        size_bytes = size_of(key, value, pairs)
        while self._buffered_bytes and self._buffered_bytes + size_bytes > self.buffer_bytes_max:
            self._room.clear()
            self._wake.set()
            await self._room.wait()
        chosen = await self._choose_partition(topic, key, partition)
        if self._closed:
            raise ClosedError("this producer is closed: make a new one")
        if self._transactions is not None:
            self._transactions.check_open()
        queue = self._queue(topic, chosen)
        batch_count = len(queue.batches)
        batch = queue.open_batch(size_bytes, self.batch_bytes, self.delivery_timeout_ms)
        future: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()
        now_ms = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        batch.add((now_ms, key, value, pairs), size_bytes, future)
        self._buffered_bytes += size_bytes
        if len(queue.batches) != batch_count:
            if batch_count and partition is None and key is None:
                self._sticky.pop(topic, None)
            self._wake.set()
        elif batch.size_bytes >= self.batch_bytes:
            self._wake.set()
        if self._sender is None:
            self._sender = asyncio.create_task(self._run(), name="ottla-producer")
        return future

    async def send_and_wait(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Headers | Mapping[str, bytes | None] = (),
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Send one record and wait until the broker has it."""
        future = await self.send(
            topic, value, key=key, partition=partition, headers=headers, timestamp_ms=timestamp_ms
        )
        self._flushing += 1
        self._wake.set()
        try:
            return await future
        finally:
            self._flushing -= 1

    async def flush(self) -> None:
        """Wait until everything sent so far is delivered or has failed; the futures tell which."""
        # Batches of a partition go in order, and the last future of a batch is done last.
        last = [batch.futures[-1] for queue in self._queues.values() for batch in queue.batches]
        if not last:
            return
        self._flushing += 1
        self._wake.set()
        try:
            await asyncio.wait(last)
        finally:
            self._flushing -= 1

    async def close(self, *, flush: bool = True) -> None:
        """Deliver what is left, then close; without `flush`, what is left is given up."""
        if not self._closed:
            self._closed = True
            try:
                if flush and self._has_open_transaction:
                    await self._abort_quietly()
                elif flush:
                    await self.flush()
            finally:
                tasks = [*self._requests, *([self._sender] if self._sender else [])]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                for queue in self._queues.values():
                    for batch in queue.batches:
                        batch.cancel()
        await super().close()

    async def _abort_quietly(self) -> None:
        """An open transaction holds up readers: better abort it than let them wait for its time-out."""
        with suppress(ClientError, TimeoutError):
            async with asyncio.timeout(ABORT_AT_CLOSE_MS / 1000):
                await self.abort_transaction()

    async def _give_up_all(self, error: ClientError) -> None:
        """Nothing is sent any more, and nothing is on its way."""
        self._drop_queued(error)
        if self._transactions is not None:
            self._transactions.fail(error, sequence_is_lost=False)
        while self._requests:
            await asyncio.wait(list(self._requests))
            self._drop_queued(error)

    def _drop_queued(self, error: ClientError) -> None:
        """All but what is on its way."""
        for queue in self._queues.values():
            while len(queue.batches) > queue.in_flight:
                self._drop(queue.batches.pop(), error)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Whoever is cancelled or interrupted is in a hurry; an ordinary error is no reason to lose records.
        await self.close(flush=error is None or isinstance(error, Exception))

    # Choosing partitions.

    async def _choose_partition(self, topic: str, key: bytes | None, partition: int | None) -> int:
        # An old picture will do to queue a record, also while no broker answers: sending asks for a new one.
        known = self.cluster.view.topics.get(topic)
        info = known if known is not None else await self.cluster.topic(topic, create=True)
        count = len(info.partitions)
        if partition is not None:
            if partition not in info.partitions:
                raise broker_error(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    topic=topic,
                    partition=partition,
                    detail=f"the topic has partitions 0 to {count - 1}",
                )
            return partition
        if key is not None:
            return partition_for_key(key, count)
        sticky = self._sticky.get(topic)
        if sticky is None or sticky >= count:
            # One partition until its batch is full: fuller batches than taking turns record by record.
            led = [row.partition for row in info.partitions.values() if row.leader >= 0]
            sticky = self._sticky[topic] = random.choice(led or list(info.partitions))
        return sticky

    def _queue(self, topic: str, partition: int) -> PartitionQueue:
        key = (topic, partition)
        queue = self._queues.get(key)
        if queue is None:
            backoff = Backoff(self.cluster.retry_backoff_ms, self.cluster.retry_backoff_max_ms)
            queue = self._queues[key] = PartitionQueue(topic, partition, backoff)
        return queue

    # Sending.

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            ready, wait_s = self._ready_queues()
            self._dispatch(ready)
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _ready_queues(self) -> tuple[list[PartitionQueue], float | None]:
        """The queues whose first batch should go now, and how long until the next one is due."""
        now_s = time.monotonic()
        ready = []
        next_s: float | None = None
        for queue in self._queues.values():
            if queue.in_flight or not queue.batches:
                continue
            head = queue.batches[0]
            due_s = queue.not_before_s
            full = len(queue.batches) > 1 or head.size_bytes >= self.batch_bytes
            if not (full or head.attempts or self._flushing):
                lingered_from_s = head.deadline.at_s - head.deadline.timeout_ms / 1000
                due_s = max(due_s, lingered_from_s + self.linger_ms / 1000)
            if due_s <= now_s:
                ready.append(queue)
            elif next_s is None or due_s < next_s:
                next_s = due_s
        return ready, None if next_s is None else max(0.0, next_s - now_s)

    def _dispatch(self, ready: list[PartitionQueue]) -> None:
        """Group the queues by leader, a request each; those without a known leader go and look for theirs."""
        groups: dict[int, list[PartitionQueue]] = {}
        sizes: dict[int, int] = {}
        for queue in ready:
            queue.in_flight = True
            info = self.cluster.view.topic(queue.topic, self.cluster.metadata_max_age_ms)
            row = info.partitions.get(queue.partition) if info is not None else None
            if row is None or row.leader < 0:
                self._start(self._send_to_found_leader(queue))
                continue
            size_bytes = sizes.get(row.leader, 0) + queue.batches[0].size_bytes
            if size_bytes > REQUEST_BYTES_MAX and row.leader in groups:
                self._start(self._send_group(row.leader, groups.pop(row.leader)))
                size_bytes = queue.batches[0].size_bytes
            groups.setdefault(row.leader, []).append(queue)
            sizes[row.leader] = size_bytes
        for node_id, queues in groups.items():
            self._start(self._send_group(node_id, queues))

    def _start(self, sending: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(sending, name="ottla-produce")
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _send_to_found_leader(self, queue: PartitionQueue) -> None:
        try:
            leader = (await self.cluster.partition(queue.topic, queue.partition)).leader
        except ClientError as error:
            self._retry_or_fail(queue, error)
            self._release([queue])
        else:
            await self._send_group(leader, [queue])

    async def _send_group(self, node_id: int, queues: list[PartitionQueue]) -> None:
        """One Produce request with the first batch of each queue."""
        encoded: list[PartitionQueue] = []
        try:
            if self._transactions is not None:
                await self._transactions.add_partitions((queue.topic, queue.partition) for queue in queues)
            producer = await self._producer_id() if self.idempotent else None
            encoded = [queue for queue in queues if self._encode_head(queue, producer)]
            if encoded:
                await self._exchange(node_id, encoded)
        except ClientError as error:
            for queue in encoded or queues:
                self._retry_or_fail(queue, error)
        finally:
            self._release(queues)

    def _encode_head(self, queue: PartitionQueue, producer: ProducerId | None) -> bool:
        """False if the first batch cannot be built: whoever sent it hears why, the others are not held up."""
        try:
            queue.encode_head(self._codec, producer, transactional=self._transactions is not None)
        except Exception as error:
            if self._transactions is not None:
                failure = ClientError(f"a batch could not be built: {error}")
                self._transactions.fail(failure, sequence_is_lost=False)
            self._drop_head(queue, error)
            return False
        return True

    def _release(self, queues: list[PartitionQueue]) -> None:
        for queue in queues:
            queue.in_flight = False
        self._wake.set()

    async def _exchange(self, node_id: int, queues: list[PartitionQueue]) -> None:
        connection = await self.cluster.connection_to(node_id)
        topics: dict[str, TopicProduceData] = {}
        transactions = self._transactions
        at_most = None if transactions is None else transactions.produce_version_max
        for queue in queues:
            data = topics.get(queue.topic)
            if data is None:
                info = await self.cluster.topic(queue.topic)
                data = topics[queue.topic] = TopicProduceData(name=queue.topic, topic_id=info.id)
                if info.id == ZERO_UUID and at_most is None:
                    at_most = PRODUCE_VERSION_WITHOUT_TOPIC_IDS
            rows = data.partition_data
            rows.append(PartitionProduceData(index=queue.partition, records=queue.batches[0].encoded))
        timeout_ms = int(self.cluster.request_timeout_ms)
        request = ProduceRequest(acks=self.acks, timeout_ms=timeout_ms, topic_data=list(topics.values()))
        if transactions is not None:
            request.transactional_id = transactions.transactional_id
        if self.acks == 0:
            await connection.send_unanswered(request, at_most=at_most)
            for queue in queues:
                self._deliver_head(queue, -1, -1)
            return
        response = await connection.request(request, ProduceResponse, timeout_ms=timeout_ms, at_most=at_most)
        names = {data.topic_id: name for name, data in topics.items()}
        answered = {
            (topic.name or names.get(topic.topic_id, ""), row.index): row
            for topic in response.responses
            for row in topic.partition_responses
        }
        for queue in queues:
            self._settle(queue, answered.get((queue.topic, queue.partition)))

    def _settle(self, queue: PartitionQueue, row: PartitionProduceResponse | None) -> None:
        """Act on the answer for the first batch of a queue."""
        code = row.error_code if row is not None else ErrorCode.UNKNOWN_SERVER_ERROR
        batch = queue.batches[0]
        if row is not None and code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._deliver_head(queue, row.base_offset, row.log_append_time_ms)
        elif code == ErrorCode.MESSAGE_TOO_LARGE and len(batch.records) > 1:
            queue.batches.popleft()
            queue.batches.extendleft(reversed(batch.halves(self.delivery_timeout_ms)))
            for half in list(queue.batches)[:2]:
                half.attempts += 1
        else:
            details = [row.error_message or ""] if row is not None else ["the broker left the partition out"]
            if row is not None:
                details += [
                    f"record {e.batch_index}: {e.batch_index_error_message}" for e in row.record_errors
                ]
            detail = "; ".join(filter(None, details)) or None
            error = broker_error(code, topic=queue.topic, partition=queue.partition, detail=detail)
            self._retry_or_fail(queue, error)

    def _retry_or_fail(self, queue: PartitionQueue, error: ClientError) -> None:
        batch = queue.batches[0]
        batch.attempts += 1
        code = error.code if isinstance(error, BrokerError) else None
        if self._transactions is not None:
            if batch.deadline.passed or not (error.retriable and self._transactions.takes_batches):
                self._transactions.fail(error, sequence_is_lost=batch.encoded is not None)
                self._drop_queued(error)
                self._drop_head(queue, error)
            else:
                self._try_again_later(queue, error)
            return
        lost_sequence = code in LOST_SEQUENCE and batch.producer is not None
        if batch.deadline.passed or not (error.retriable or lost_sequence):
            if error.retriable and batch.encoded is not None and batch.producer == self._producer:
                # Whether the broker has it is unknown, so is the next sequence number: start over.
                self._producer = None
            self._drop_head(queue, error)
            return
        if lost_sequence:
            if batch.producer == self._producer:
                self._producer = None
            batch.encoded = None
        self._try_again_later(queue, error)

    def _try_again_later(self, queue: PartitionQueue, error: ClientError) -> None:
        if not isinstance(error, BrokerError) or error.stale_metadata:
            self.cluster.view.expire(queue.topic)
        queue.not_before_s = time.monotonic() + queue.backoff.next_ms() / 1000

    def _deliver_head(self, queue: PartitionQueue, base_offset: int, log_append_time_ms: int) -> None:
        batch = queue.finish_head()
        batch.succeed(queue.topic, queue.partition, base_offset, log_append_time_ms)
        self._forget_bytes(batch.size_bytes)

    def _drop_head(self, queue: PartitionQueue, error: Exception) -> None:
        self._drop(queue.batches.popleft(), error)

    def _drop(self, batch: Batch, error: Exception) -> None:
        batch.fail(error)
        if self._transactions is not None:
            # Whoever commits is told: nobody has to ask every record.
            for future in batch.futures:
                if not future.cancelled():
                    future.exception()
        self._forget_bytes(batch.size_bytes)

    def _forget_bytes(self, size_bytes: int) -> None:
        self._buffered_bytes -= size_bytes
        assert self._buffered_bytes >= 0, "more was delivered than taken"
        self._room.set()

    async def _producer_id(self) -> ProducerId:
        if self._transactions is not None:
            assert self._transactions.producer is not None
            return self._transactions.producer
        async with self._producer_lock:
            if self._producer is None:
                request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=INT32_MAX)

                async def attempt() -> ProducerId:
                    response = await self.cluster.ask_any(request, InitProducerIdResponse)
                    raise_for(response.error_code, detail="no producer id was given")
                    return ProducerId(response.producer_id, response.producer_epoch)

                self._producer = await self.cluster.retrying(attempt)
            return self._producer
