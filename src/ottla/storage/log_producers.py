"""The meeting of batches and producer state: checked before the append, followed after it."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.protocol.errors import ErrorCode
from ottla.records.batch import BatchHeader, RecordsError, increment_sequence
from ottla.storage.files import Bytes
from ottla.storage.markers import read_marker
from ottla.storage.producer_state import KeptBatch, ProducerState
from ottla.storage.segment import Segment

Headers = Sequence[tuple[int, BatchHeader]]


def check_producers(state: ProducerState, buffer: Bytes, headers: Headers) -> KeptBatch | None:
    """Refuse by RecordsError, or return the stored batch that the first duplicate repeats."""
    earlier: dict[int, BatchHeader] = {}
    for position, header in headers:
        if not header.has_producer:
            continue
        if header.is_control:
            marker = read_marker(buffer, position, header)
            if marker is not None:
                state.check_marker(header.producer_id, header.producer_epoch, marker.coordinator_epoch)
            continue
        before = earlier.get(header.producer_id)
        if before is None:
            duplicate = state.check(header)
            if duplicate is not None:
                return duplicate
        elif header.base_sequence >= 0:
            _check_follows(before, header)
        earlier[header.producer_id] = header
    return None


def _check_follows(before: BatchHeader, header: BatchHeader) -> None:
    """Two batches of one producer in one append: the second must go on where the first ends."""
    expected = increment_sequence(before.last_sequence, 1)
    if header.producer_epoch != before.producer_epoch or header.base_sequence != expected:
        raise RecordsError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id}: sequence {header.base_sequence} came where {expected} was due",
        )


def follow_producers(
    state: ProducerState, segment: Segment, buffer: Bytes, headers: Headers, offsets: Sequence[int]
) -> None:
    """Take over batches that are in the log now; aborted transactions go to the segment's index."""
    for (position, header), offset in zip(headers, offsets, strict=True):
        if header[9] < 0:
            continue
        if not header.is_control:
            state.update(header, offset)
            continue
        marker = read_marker(buffer, position, header)
        if marker is None:
            continue
        completed = state.end_transaction(header, offset, marker.coordinator_epoch, aborted=marker.aborted)
        if completed is not None and completed.aborted:
            segment.txn_index.append(state.aborted_entry(completed))
