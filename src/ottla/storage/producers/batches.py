"""Checking batches against the producer state before an append, and updating it after."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.protocol.errors import ErrorCode
from ottla.records.batch import BatchHeader, RecordsError, increment_sequence
from ottla.storage.files import Bytes
from ottla.storage.producers.markers import read_marker
from ottla.storage.producers.state import KeptBatch, ProducerState
from ottla.storage.segments.segment import Segment

Headers = Sequence[tuple[int, BatchHeader]]


def check_producers(state: ProducerState, buffer: Bytes, headers: Headers) -> KeptBatch | None:
    """Raise RecordsError for a batch that must not be appended; return the original of the first
    duplicate."""
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
            _check_sequence_continues(before, header)
        earlier[header.producer_id] = header
    return None


def continues(before: BatchHeader, header: BatchHeader) -> bool:
    """Whether a batch is certain to be valid after `before`, another batch of its producer that is."""
    return (
        header.producer_epoch == before.producer_epoch
        and header.base_sequence == increment_sequence(before.base_sequence, before.last_offset_delta + 1)
        and before.base_sequence >= 0
        and header.is_transactional == before.is_transactional
    )


def _check_sequence_continues(before: BatchHeader, header: BatchHeader) -> None:
    """Check that the second of two batches of a producer in one append continues its sequence."""
    expected = increment_sequence(before.last_sequence, 1)
    if header.producer_epoch != before.producer_epoch or header.base_sequence != expected:
        raise RecordsError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id}: sequence {header.base_sequence} received, {expected} expected",
        )


def update_producers(
    state: ProducerState, segment: Segment, buffer: Bytes, headers: Headers, offsets: Sequence[int]
) -> None:
    """Apply appended batches to the producer state; add aborted transactions to the segment's index."""
    for (position, header), offset in zip(headers, offsets, strict=True):
        if header.producer_id < 0:
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
