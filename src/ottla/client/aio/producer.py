"""The producer: collects records in batches per partition and delivers them in order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Protocol, Self

from ottla.client.aio.cluster import ClusterClient, ClusterHandle
from ottla.client.aio.record_batches import Delivery, Headers, RecordBatch, RecordFormat, size_of
from ottla.client.core import delivery
from ottla.client.core.delivery import DeliveryLimits
from ottla.client.core.group_offsets import MemberIdentity
from ottla.client.core.group_types import CommittedOffset, TopicPartition
from ottla.client.core.partitioner import PartitionChooser
from ottla.client.core.steps import Steps
from ottla.client.core.transaction_api import PreparedTransaction, TransactionApi
from ottla.client.core.transactions import (
    COMMITTING,
    FAILED,
    OPEN,
    PREPARED,
    Transactions,
)
from ottla.client.errors import ClientError, ClosedError, TransactionFailedError
from ottla.client.options import ClientOptions, Partitioner

BATCH_BYTES = 128 * 1024
REQUEST_BYTES_MAX = 16 * 1024 * 1024
# As many unanswered requests to one broker as Kafka's clients allow.
REQUESTS_PER_LEADER_MAX = 5
ABORT_AT_CLOSE_MS = 5_000


class GroupConsumer(Protocol):
    """A consumer whose offsets a transaction commits."""

    @property
    def group_id(self) -> str | None: ...

    def member_identity(self) -> MemberIdentity: ...


class Producer:
    """Sends records to topics.

    async with Producer("localhost:9092", compression="zstd") as producer:
        delivery = await producer.send("orders", b"value", key=b"customer 7")
        print(await delivery)                    # partition and offset, once the broker has it

    Records with a key go to the partition that the Java client would choose, or to the one that
    `partitioner(topic, key, partition_count)` returns. With acks="all" (the default) the producer is
    idempotent: a batch that had to be sent twice is written once. Leaving the context delivers what is left.

    With a `transactional_id` all records are sent in transactions:

        async with Producer("localhost:9092", transactional_id="billing-1") as producer:
            async with producer.transaction():
                await producer.send("orders", b"value")
                await producer.send_offsets_to_transaction(consumer.consumed_offsets(), consumer)

    A transaction that is not ended within `transaction_timeout_ms` is aborted by the cluster. With
    `two_phase_commit` it has no time-out: see `prepare_transaction`.

    All keyword arguments are fields of `ClientOptions`, where their defaults are.
    """

    def __init__(
        self,
        cluster: ClusterClient | ClientOptions | str | Sequence[str],
        *,
        acks: int | str | None = None,
        idempotent: bool | None = None,
        compression: str | None = None,
        compression_level: int | None = None,
        batch_bytes: int | None = None,
        linger_ms: float | None = None,
        buffer_bytes_max: int | None = None,
        delivery_timeout_ms: float | None = None,
        partitioner: Partitioner | None = None,
        client_id: str | None = None,
        transactional_id: str | None = None,
        transaction_timeout_ms: int | None = None,
        two_phase_commit: bool | None = None,
    ) -> None:
        self._handle = ClusterHandle(cluster, client_id=client_id)
        self.cluster = self._handle.cluster
        self.options = options = self.cluster.options.changed(
            acks=acks,
            idempotent=idempotent,
            compression=compression,
            compression_level=compression_level,
            batch_bytes=batch_bytes,
            linger_ms=linger_ms,
            buffer_bytes_max=buffer_bytes_max,
            delivery_timeout_ms=delivery_timeout_ms,
            partitioner=partitioner,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            two_phase_commit=two_phase_commit,
        )
        self._transactions: Transactions | None = None
        if options.transactional_id is not None:
            self._transactions = Transactions(
                TransactionApi(self.cluster.core),
                options.transactional_id,
                options.transaction_timeout_ms,
                options.two_phase_commit,
            )
        self._format = RecordFormat(
            options.codec, options.compression_level, quiet=self._transactions is not None
        )
        self._delivery = delivery.Delivery(
            self.cluster.core,
            DeliveryLimits(
                BATCH_BYTES if options.batch_bytes is None else options.batch_bytes,
                options.linger_ms,
                REQUEST_BYTES_MAX,
                REQUESTS_PER_LEADER_MAX,
            ),
            acks=options.acks_code,
            idempotent=options.is_idempotent,
            delivery_timeout_ms=options.delivery_timeout_ms,
            transactions=self._transactions,
        )
        self._chooser = PartitionChooser(options.partitioner, self.cluster.core.clock)
        self._has_room = asyncio.Event()
        self._wake = asyncio.Event()
        self._closed = False
        self._sender: asyncio.Task[None] | None = None
        self._jobs: set[asyncio.Task[None]] = set()

    # Records.

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
        """Queue a record; the result of the future is its position. Waits while the buffer is full.

        Raises UnknownTopicError or another ClientError if the topic cannot be found; later errors are raised
        by the future.
        """
        for name, content in (("value", value), ("key", key)):
            if content is not None and not isinstance(content, bytes | bytearray | memoryview):
                raise TypeError(
                    f"{name} must be bytes or None, not {type(content).__name__}: encode it first"
                )
        pairs = tuple(headers.items()) if isinstance(headers, Mapping) else tuple(headers)
        size_bytes = size_of(key, value, pairs)
        while self._buffered_bytes and self._buffered_bytes + size_bytes > self.options.buffer_bytes_max:
            self._has_room.clear()
            self._wake.set()
            await self._has_room.wait()
        # Old metadata is enough to queue a record, also while no broker responds: sending refreshes it.
        info = self.cluster.view.topics.get(topic)
        if info is None:
            info = await self.cluster.topic(topic, create=True)
        chosen = self._chooser.choose(info, key, partition)
        if self._closed:
            raise ClosedError("this producer is closed: create a new one")
        if self._transactions is not None:
            self._transactions.check_open()
        future: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()
        now_ms = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        is_bound = partition is not None or key is not None
        self._append(topic, chosen, (now_ms, key, value, pairs), size_bytes, future, is_bound)
        if self._sender is None:
            self._sender = asyncio.create_task(self._run(), name="ottla-producer")
        return future

    def _append(
        self,
        topic: str,
        partition: int,
        record: tuple[int, bytes | None, bytes | None, Headers],
        size_bytes: int,
        future: asyncio.Future[Delivery],
        is_bound: bool,
    ) -> None:
        queue = self._delivery.queue(topic, partition)
        batch = self._delivery.open_payload(queue, size_bytes)
        if batch is not None:
            assert isinstance(batch, RecordBatch)
            batch.add(record, size_bytes, future)
            self._delivery.grew(size_bytes)
            if batch.size_bytes >= self._delivery.limits.batch_bytes:
                self._wake.set()
            return
        if queue.batches and not is_bound:
            self._chooser.batch_is_full(topic)
        batch = RecordBatch(topic, partition, self._format)
        batch.add(record, size_bytes, future)
        self._delivery.add(queue, batch)
        self._wake.set()

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
        """Send one record and wait until the broker has acknowledged it."""
        future = await self.send(
            topic, value, key=key, partition=partition, headers=headers, timestamp_ms=timestamp_ms
        )
        self._delivery.flushing += 1
        self._wake.set()
        try:
            return await future
        finally:
            self._delivery.flushing -= 1

    async def flush(self) -> None:
        """Wait until everything sent so far is delivered or has failed; the futures say which."""
        pending = [
            batch.payload.ended()
            for batch in self._delivery.batches()
            if isinstance(batch.payload, RecordBatch)
        ]
        if not pending:
            return
        self._delivery.flushing += 1
        self._wake.set()
        try:
            await asyncio.wait(pending)
        finally:
            self._delivery.flushing -= 1

    async def close(self, *, flush: bool = True) -> None:
        """Deliver what is left, then close; without `flush`, drop what is left."""
        if not self._closed:
            self._closed = True
            try:
                if flush and self._transactions is not None and self._transactions.has_open:
                    await self._abort_quietly()
                elif flush:
                    await self.flush()
            finally:
                tasks = [*self._jobs, *([self._sender] if self._sender else [])]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                for batch in self._delivery.batches():
                    assert isinstance(batch.payload, RecordBatch)
                    batch.payload.cancel()
        await self._handle.close()

    async def _abort_quietly(self) -> None:
        """Abort an open transaction: readers would wait for its time-out."""
        with suppress(ClientError, TimeoutError):
            async with asyncio.timeout(ABORT_AT_CLOSE_MS / 1000):
                await self.abort_transaction()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A cancelled or interrupted program must end soon; an ordinary error is no reason to lose records.
        await self.close(flush=error is None or isinstance(error, Exception))

    # Sending.

    @property
    def _buffered_bytes(self) -> int:
        return self._delivery.queued_bytes

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            for job in self._delivery.jobs():
                task = asyncio.create_task(self._run_job(job), name="ottla-produce")
                self._jobs.add(task)
                task.add_done_callback(self._jobs.discard)
            due_s = self._delivery.next_due_s
            wait_s = None if due_s is None else max(0.0, due_s - self.cluster.core.clock.now_s())
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _run_job(self, job: Steps[None]) -> None:
        try:
            await self.cluster.run(job)
        finally:
            # Here and not in a callback of the task, which would run an iteration of the loop later.
            self._has_room.set()
            self._wake.set()

    async def _drop_all(self, error: ClientError) -> None:
        """Drop what is queued and wait for what is in flight."""
        self._delivery.drop_queued(error)
        if self._transactions is not None:
            self._transactions.fail(error, sequence_is_lost=False)
        while self._jobs:
            await asyncio.wait(list(self._jobs))
            self._delivery.drop_queued(error)
        self._has_room.set()

    # Transactions.

    def _transactional(self) -> Transactions:
        if self._transactions is None:
            raise ClientError("transactions need an id: create the producer with transactional_id=...")
        return self._transactions

    async def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Take the transactional id: older producers with it are fenced, what they left open is aborted.

        The first transaction does it by itself. With `keep_prepared` (and two_phase_commit=True) a prepared
        transaction is kept and returned: `complete_transaction` ends it. After ProducerFencedError this
        takes the id back.
        """
        transactions = self._transactional()
        await self.cluster.run(transactions.init(keep_prepared=keep_prepared))
        return transactions.prepared

    async def begin_transaction(self) -> None:
        """Send all records in a transaction from here on; committed readers see them at its end."""
        await self.cluster.run(self._transactional().begin())

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, CommittedOffset | int], group: GroupConsumer | str
    ) -> None:
        """Commit offsets of a group with the transaction: reading and writing take effect together.

        `group` is the consumer that reads (created with auto_commit=False; commit its `consumed_offsets()`),
        or just the name of its group, which also works for a consumer that is no longer a member. Raises
        TransactionFailedError: abort, and read again from the committed offsets.
        """
        transactions = self._transactional()
        if isinstance(group, str):
            steps = transactions.add_offsets(group, offsets, MemberIdentity)
        elif group.group_id is None:
            raise ValueError("this consumer has no group: create it with group_id=...")
        else:
            steps = transactions.add_offsets(group.group_id, offsets, group.member_identity)
        await self.cluster.run(steps)

    async def commit_transaction(self) -> None:
        """Deliver everything, then commit. Raises TransactionFailedError if it can only be aborted.

        After any other error it is unknown whether the transaction is committed: call it again, or create a
        new producer with the same id, which waits for the result, too.
        """
        transactions = self._transactional()
        if transactions.state not in (PREPARED, COMMITTING):
            transactions.check_open()
            await self.flush()
            transactions.check_open()
        await self.cluster.run(transactions.end(commit=True))

    async def abort_transaction(self) -> None:
        """Drop what is not delivered yet and abort the rest."""
        transactions = self._transactional()
        transactions.check_abortable()
        await self._drop_all(TransactionFailedError("the transaction was aborted"))
        await self.cluster.run(transactions.end(commit=False))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """`async with producer.transaction():` commits at the end, and aborts if an exception leaves it."""
        await self.begin_transaction()
        transactions = self._transactional()
        try:
            yield self
            await self.commit_transaction()
        except BaseException:
            if transactions.state in (OPEN, FAILED, PREPARED):
                await self.abort_transaction()
            raise

    async def prepare_transaction(self) -> PreparedTransaction:
        """Deliver everything; the result names the transaction for `complete_transaction` (KIP-939).

        Store it together with the other resource's change. After a crash, `init_transactions` with
        `keep_prepared` and `complete_transaction` bring this transaction to the same end.
        """
        transactions = self._transactional()
        if not transactions.two_phase_commit:
            raise ClientError("prepare_transaction: create the producer with two_phase_commit=True")
        transactions.check_open()
        await self.flush()
        return transactions.prepare()

    async def complete_transaction(self, prepared: PreparedTransaction | None) -> bool:
        """Commit the prepared transaction if it is this one, else abort it; whether it was committed."""
        transactions = self._transactional()
        if transactions.state != PREPARED:
            raise ClientError(f"there is no prepared transaction: it is {transactions.state}")
        is_same = prepared is not None and tuple(prepared) == transactions.prepared
        await self.cluster.run(transactions.end(commit=is_same))
        return is_same
