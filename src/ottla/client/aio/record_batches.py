"""What a producer has taken but not yet delivered: one queue of batches per partition."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from ottla.client.core.retry import Backoff, Deadline
from ottla.records.build import build_batch

# Kafka's sequence numbers run from 0 to 2^31 - 1 and start over.
SEQUENCE_MASK = 0x7FFFFFFF
# An upper bound of what a record adds besides its key, value and headers: varints, attributes.
RECORD_OVERHEAD_BYTES = 32
HEADER_OVERHEAD_BYTES = 10

Headers = Sequence[tuple[str, bytes | None]]
RecordFields = tuple[int, bytes | None, bytes | None, Headers]


class Delivery(NamedTuple):
    """Where a record ended up; offset -1 with acks=0, where nobody answers."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class ProducerId(NamedTuple):
    """Who we are to the brokers that detect duplicates."""

    id: int
    epoch: int


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """How many bytes of a batch a record takes at most, before compression."""
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += HEADER_OVERHEAD_BYTES + 4 * len(name) + len(content or b"")
    return size


class Batch:
    """Records of one partition that travel together, and who waits for each of them."""

    __slots__ = ("attempts", "deadline", "encoded", "futures", "producer", "records", "size_bytes")

    def __init__(self, delivery_timeout_ms: float) -> None:
        self.records: list[RecordFields] = []
        self.futures: list[asyncio.Future[Delivery]] = []
        self.size_bytes = 0
        self.deadline = Deadline(delivery_timeout_ms)
        self.attempts = 0
        self.encoded: bytearray | None = None
        self.producer: ProducerId | None = None

    def add(self, record: RecordFields, size_bytes: int, future: asyncio.Future[Delivery]) -> None:
        assert self.encoded is None, "a batch that was sent cannot grow"
        self.records.append(record)
        self.futures.append(future)
        self.size_bytes += size_bytes

    def halves(self, delivery_timeout_ms: float) -> tuple[Batch, Batch]:
        """The same records as two batches, for a broker that finds this one too large."""
        middle = len(self.records) // 2
        assert middle > 0, "one record cannot be split"
        found = []
        for part in (slice(None, middle), slice(middle, None)):
            half = Batch(delivery_timeout_ms)
            half.deadline = self.deadline
            for record, future in zip(self.records[part], self.futures[part], strict=True):
                half.add(record, size_of(*record[1:]), future)
            half.attempts = self.attempts
            found.append(half)
        return found[0], found[1]

    def succeed(self, topic: str, partition: int, base_offset: int, log_append_time_ms: int) -> None:
        for delta, (record, future) in enumerate(zip(self.records, self.futures, strict=True)):
            if not future.done():
                offset = base_offset + delta if base_offset >= 0 else -1
                timestamp_ms = log_append_time_ms if log_append_time_ms >= 0 else record[0]
                future.set_result(Delivery(topic, partition, offset, timestamp_ms))

    def cancel(self) -> None:
        for future in self.futures:
            future.cancel()

    def fail(self, error: Exception) -> None:
        for future in self.futures:
            if not future.done():
                future.set_exception(error)


class PartitionQueue:
    """The batches of one partition in order; at most one of them is on its way, so order survives retries."""

    __slots__ = (
        "backoff",
        "batches",
        "in_flight",
        "next_sequence",
        "not_before_s",
        "partition",
        "producer",
        "topic",
    )

    def __init__(self, topic: str, partition: int, backoff: Backoff) -> None:
        self.topic = topic
        self.partition = partition
        self.batches: deque[Batch] = deque()
        self.in_flight = False
        self.not_before_s = 0.0
        self.backoff = backoff
        self.producer: ProducerId | None = None
        self.next_sequence = 0

    def open_batch(self, size_bytes: int, batch_bytes: int, delivery_timeout_ms: float) -> Batch:
        """The batch that takes the next record: the last one if there is room and it was never sent."""
        if self.batches:
            last = self.batches[-1]
            if last.encoded is None and last.attempts == 0 and last.size_bytes + size_bytes <= batch_bytes:
                return last
        batch = Batch(delivery_timeout_ms)
        self.batches.append(batch)
        return batch

    def encode_head(
        self, codec: int, producer: ProducerId | None, *, transactional: bool = False
    ) -> bytearray:
        """The first batch as bytes. Once encoded it stays: a retry must repeat its sequence number."""
        batch = self.batches[0]
        if batch.encoded is not None:
            return batch.encoded
        batch.producer = producer
        if producer is None:
            batch.encoded = build_batch(batch.records, codec=codec)
            return batch.encoded
        if producer != self.producer:
            self.producer = producer
            self.next_sequence = 0
        batch.encoded = build_batch(
            batch.records,
            codec=codec,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=self.next_sequence,
            transactional=transactional,
        )
        return batch.encoded

    def finish_head(self) -> Batch:
        """Take the first batch off after the broker took it."""
        batch = self.batches.popleft()
        if batch.producer is not None and batch.producer == self.producer:
            self.next_sequence = (self.next_sequence + len(batch.records)) & SEQUENCE_MASK
        self.backoff.reset()
        self.not_before_s = 0.0
        return batch
