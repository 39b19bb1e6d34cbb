"""Records that were sent one by one, gathered into batches; each record has a future."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from ottla.client.core.batches import ProducerId
from ottla.protocol.messages.produce_response import PartitionProduceResponse
from ottla.records.build import build_batch

# An upper bound of what a record adds besides its key, value and headers: varints, attributes.
RECORD_OVERHEAD_BYTES = 32
HEADER_OVERHEAD_BYTES = 10

Headers = Sequence[tuple[str, bytes | None]]
RecordFields = tuple[int, bytes | None, bytes | None, Headers]


class Delivery(NamedTuple):
    """Where a record was written; offset -1 with acks=0, which has no response."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class RecordFormat(NamedTuple):
    """How batches of a producer are built; `quiet` if futures may be dropped without being awaited."""

    codec: int
    level: int | None
    quiet: bool


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """An upper bound of the bytes that a record takes in a batch, before compression."""
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += HEADER_OVERHEAD_BYTES + 4 * len(name) + len(content or b"")
    return size


class RecordBatch:
    """Records of one partition; a `Payload` of the core."""

    __slots__ = ("_format", "_futures", "_partition", "_records", "_topic", "_waiter", "size_bytes")

    def __init__(self, topic: str, partition: int, record_format: RecordFormat) -> None:
        self._topic = topic
        self._partition = partition
        self._format = record_format
        self._records: list[RecordFields] = []
        self._futures: list[asyncio.Future[Delivery]] = []
        self._waiter: asyncio.Future[None] | None = None
        self.size_bytes = 0

    @property
    def count(self) -> int:
        return len(self._records)

    def ended(self) -> asyncio.Future[None]:
        """Done when the batch is delivered or has failed, also if the user cancelled futures of records."""
        if self._waiter is None:
            self._waiter = asyncio.get_running_loop().create_future()
        return self._waiter

    def _end(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def add(self, record: RecordFields, size_bytes: int, future: asyncio.Future[Delivery]) -> None:
        self._records.append(record)
        self._futures.append(future)
        self.size_bytes += size_bytes

    def seal(self, producer: ProducerId | None, base_sequence: int, *, transactional: bool) -> bytearray:
        if producer is None:
            return build_batch(self._records, codec=self._format.codec, level=self._format.level)
        return build_batch(
            self._records,
            codec=self._format.codec,
            level=self._format.level,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )

    def split(self) -> list[RecordBatch]:
        middle = len(self._records) // 2
        assert middle > 0, "one record cannot be split"
        halves = []
        for part in (slice(None, middle), slice(middle, None)):
            half = RecordBatch(self._topic, self._partition, self._format)
            for record, future in zip(self._records[part], self._futures[part], strict=True):
                half.add(record, size_of(*record[1:]), future)
            halves.append(half)
        halves[-1]._waiter = self._waiter
        return halves

    def without_refused(self, row: PartitionProduceResponse) -> None:
        """A batch fails as a whole, as in other clients; the error names the refused records."""

    def delivered(self, base_offset: int, log_append_time_ms: int) -> None:
        for delta, (record, future) in enumerate(zip(self._records, self._futures, strict=True)):
            if not future.done():
                offset = base_offset + delta if base_offset >= 0 else -1
                timestamp_ms = log_append_time_ms if log_append_time_ms >= 0 else record[0]
                future.set_result(Delivery(self._topic, self._partition, offset, timestamp_ms))
        self._end()

    def failed(self, error: Exception) -> None:
        for future in self._futures:
            if not future.done():
                future.set_exception(error)
            if self._format.quiet and not future.cancelled():
                future.exception()  # the commit reports it: no future needs to be awaited
        self._end()

    def cancel(self) -> None:
        for future in self._futures:
            future.cancel()
        self._end()
