"""The position of a consumer in a partition, and the fetched records that it has not returned yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.client.core.aborted import AbortedTransactions
from ottla.client.core.retry import Backoff
from ottla.client.errors import ClientError
from ottla.records.batch import HEADER_BYTES, CorruptBatch, RecordsError, crc_ok, read_header
from ottla.records.record import iter_records

LENGTH_PREFIX_BYTES = 12


class CorruptRecordsError(ClientError):
    """A broker sent damaged records: the checksum does not match, or they cannot be decoded."""


class ConsumedRecord(NamedTuple):
    """A record and its position in the log."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class PartitionState:
    """The next offset to return, and the fetched bytes from there."""

    __slots__ = (
        "_records",
        "backoff",
        "committed",
        "consumed",
        "failing_since_s",
        "generation",
        "high_watermark",
        "in_flight",
        "last_stable_offset",
        "log_start_offset",
        "next_offset",
        "not_before_s",
        "partition",
        "topic",
    )

    def __init__(self, topic: str, partition: int, next_offset: int, backoff: Backoff) -> None:
        self.topic = topic
        self.partition = partition
        self.next_offset = next_offset
        # For groups: the offset after the last processed record, and the committed one (-1: none).
        self.consumed = next_offset
        self.committed = -1
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.in_flight = False
        self.not_before_s = 0.0
        self.failing_since_s: float | None = None
        self.backoff = backoff
        self.generation = 0
        self._records: Iterator[ConsumedRecord] | None = None

    @property
    def has_records(self) -> bool:
        """Whether there are fetched bytes; they may have no visible record."""
        return self._records is not None

    def seek(self, offset: int) -> None:
        """Set the position; the response to a fetch in flight is ignored."""
        self.generation += 1
        self.next_offset = self.consumed = offset
        self._records = None

    def fetched(self, data: bytes | memoryview, aborted: AbortedTransactions | None = None) -> None:
        """Take over fetched bytes; with `aborted`, records that it hides are skipped."""
        self._records = self._iterate(data, aborted)

    def take(self, count_max: int) -> list[ConsumedRecord]:
        """The next records, at most `count_max`; empty when no bytes are left."""
        taken: list[ConsumedRecord] = []
        while self._records is not None and len(taken) < count_max:
            try:
                record = next(self._records)
            except StopIteration:
                self._records = None
            except ClientError:
                self._records = None
                if taken:
                    # Return the valid records first: the next fetch will report the corruption.
                    break
                raise
            else:
                self.next_offset = record.offset + 1
                taken.append(record)
        return taken

    def _iterate(
        self, data: bytes | memoryview, aborted: AbortedTransactions | None
    ) -> Iterator[ConsumedRecord]:
        position = 0
        while position + HEADER_BYTES <= len(data):
            length = int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
            if length > 0 and position + LENGTH_PREFIX_BYTES + length > len(data):
                break  # brokers may truncate the last batch: the next fetch has all of it
            yield from self._batch(data, position, aborted)
            position += LENGTH_PREFIX_BYTES + length

    def _batch(
        self, data: bytes | memoryview, position: int, aborted: AbortedTransactions | None
    ) -> Iterator[ConsumedRecord]:
        topic, partition = self.topic, self.partition
        try:
            header = read_header(data, position)
            if not crc_ok(data, position, header):
                raise CorruptBatch("the checksum does not match")
            is_hidden = header.is_control if aborted is None else aborted.hides(data, position, header)
            # The position may be in the middle of a batch.
            if not is_hidden and header.next_offset > self.next_offset:
                for record in iter_records(data, position, header):
                    if record.offset >= self.next_offset:
                        yield ConsumedRecord(topic, partition, *record)
        except (CorruptBatch, RecordsError) as error:
            raise CorruptRecordsError(
                f"topic {topic!r} partition {partition} after offset {self.next_offset}: {error}"
            ) from error
        # Compaction and transaction markers leave offsets without a record: skip them.
        self.next_offset = max(self.next_offset, header.next_offset)
