"""Arrow rows as a record batch for one partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import pyarrow as pa

from ottla.client.core.batches import ProducerId
from ottla.client.errors import broker_error
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce_response import PartitionProduceResponse
from ottla.records.arrow import LaidOut, RecordColumns, batches_to_arrow
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.records.build import compressed, finish_batch

KEY_SHOWN_BYTES_MAX = 64
# A limit that is never reached: the rows of a batch are encoded as a single batch again.
ONE_BATCH_BYTES = 2**30

# Rows that a broker refused for good: topic, partition, rows, reason.
Reject = Callable[[str, int, pa.RecordBatch, str], None]


class Outcomes(Protocol):
    """Receives the outcomes of batches."""

    def delivered(
        self, topic: str, partition: int, base_offset: int, count: int, size_bytes: int
    ) -> None: ...

    def failed(self, error: Exception) -> None: ...


class BatchFormat(NamedTuple):
    """How batches are compressed, where outcomes go; `reject` takes refused rows."""

    codec: int
    level: int | None
    outcomes: Outcomes
    reject: Reject | None


class ArrowBatch:
    """Rows of one partition, compressed; the header is written when it is sent. A `Payload` of the core."""

    __slots__ = ("_format", "_rows", "count", "data", "partition", "size_bytes", "topic")

    def __init__(self, topic: str, partition: int, rows: LaidOut, batch_format: BatchFormat) -> None:
        self.topic = topic
        self.partition = partition
        self._format = batch_format
        self.data = compressed(rows.data, batch_format.codec, batch_format.level)
        self.count = rows.records_count
        self.size_bytes = len(self.data)
        self._rows = (rows.base_timestamp, rows.max_timestamp)

    def seal(self, producer: ProducerId | None, base_sequence: int, *, transactional: bool) -> bytearray:
        finish_batch(
            self.data,
            self.count,
            *self._rows,
            codec=self._format.codec,
            producer_id=NO_PRODUCER_ID if producer is None else producer.id,
            producer_epoch=NO_PRODUCER_EPOCH if producer is None else producer.epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )
        return self.data

    def split(self) -> list[ArrowBatch]:
        rows = self._decoded()
        middle = rows.num_rows // 2
        return [self._batch_of(rows.slice(0, middle)), self._batch_of(rows.slice(middle))]

    def without_refused(self, row: PartitionProduceResponse) -> list[ArrowBatch]:
        """The rows that were not refused. Raises unless refused rows are collected."""
        rows = self._decoded()
        reasons = {e.batch_index: e.batch_index_error_message or "" for e in row.record_errors}
        if row.error_code == ErrorCode.MESSAGE_TOO_LARGE:
            reasons = {0: f"{self.size_bytes} bytes are more than the topic takes"}
        reject = self._format.reject
        if reject is None or not all(0 <= index < rows.num_rows for index in reasons):
            raise self._refusal(row, rows, reasons)
        name = ErrorCode(row.error_code).name
        for index, text in reasons.items():
            reject(self.topic, self.partition, rows.slice(index, 1), f"{name}: {text}")
        kept = rows.filter(pa.array([index not in reasons for index in range(rows.num_rows)]))
        return [self._batch_of(kept)] if kept.num_rows else []

    def _refusal(
        self, row: PartitionProduceResponse, rows: pa.RecordBatch, reasons: Mapping[int, str]
    ) -> Exception:
        details = [row.error_message or ""]
        for index, text in reasons.items():
            key = shown_key(rows.column("key")[index].as_py()) if index < rows.num_rows else "?"
            details.append(f"record {index} with key {key}: {text}")
        detail = "; ".join(filter(None, details))
        return broker_error(row.error_code, topic=self.topic, partition=self.partition, detail=detail)

    def delivered(self, base_offset: int, log_append_time_ms: int) -> None:
        self._format.outcomes.delivered(self.topic, self.partition, base_offset, self.count, self.size_bytes)

    def failed(self, error: Exception) -> None:
        self._format.outcomes.failed(error)

    def _decoded(self) -> pa.RecordBatch:
        return batches_to_arrow([self.data])

    def _batch_of(self, rows: pa.RecordBatch) -> ArrowBatch:
        (part,) = RecordColumns(rows, 0).lay_out(0, rows.num_rows, self.size_bytes + ONE_BATCH_BYTES)
        return ArrowBatch(self.topic, self.partition, part, self._format)


def shown_key(key: bytes | None) -> str:
    """A key as errors name it."""
    if key is None:
        return "null"
    text = repr(key[:KEY_SHOWN_BYTES_MAX])
    return text if len(key) <= KEY_SHOWN_BYTES_MAX else f"{text}... ({len(key)} bytes)"
