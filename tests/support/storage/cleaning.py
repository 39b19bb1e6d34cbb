"""Cleaning a log in a test, and a model of the expected result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ottla.records import _pure_cleaning, cleaning
from ottla.records.batch import BatchHeader, iter_headers
from ottla.records.record import Record, iter_records
from ottla.storage.cleaning.job import DONE, CleanJob, CleanSettings
from ottla.storage.cleaning.plan import plan_clean
from ottla.storage.log import PartitionLog
from ottla.storage.producers.markers import read_marker
from ottla.storage.segments.swap import CleanedGroup

FUNCTIONS = (
    *("KeyMap", "filter_batches", "filter_records", "index_points"),
    *("map_batches", "map_records", "rebase_records"),
)


@contextmanager
def plain_kernel() -> Iterator[None]:
    """Replace the compiled loops by the pure-Python implementation."""
    before = {name: getattr(cleaning, name) for name in FUNCTIONS}
    try:
        for name in FUNCTIONS:
            setattr(cleaning, name, getattr(_pure_cleaning, name))
        yield
    finally:
        for name, value in before.items():
            setattr(cleaning, name, value)


def clean(log: PartitionLog, now_ms: int, stable_offset: int | None = None, **settings: Any) -> bool:
    """Run one cleaning; return False if there was nothing to do."""
    stable = log.last_stable_offset(log.log_end_offset) if stable_offset is None else stable_offset
    plan = plan_clean(log, stable, now_ms)
    if not plan.dirty_bytes:
        return False
    job = log.cleaning = CleanJob(log, plan, CleanSettings(**settings), now_ms)
    while (step := job.step()) is not DONE:
        if isinstance(step, CleanedGroup):
            assert log.replace_segments(step, now_ms)
    log.cleaning = None
    log.cleaned_offset = job.end_offset
    return True


def batches_of(log: PartitionLog) -> list[tuple[BatchHeader, list[Record]]]:
    """Return every batch as readers get them."""
    found = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20).read()
        if not data:
            break
        for position, header in iter_headers(data):
            if header.last_offset >= offset:
                found.append((header, list(iter_records(data, position, header))))
                offset = header.next_offset
    return found


class Expected(NamedTuple):
    """What a cleaning must leave: records by offset."""

    records: dict[int, Record]
    aborted: frozenset[int]


def aborted_offsets(log: PartitionLog) -> frozenset[int]:
    """Return the offsets of records in aborted transactions, derived from the markers alone."""
    opened: dict[int, list[int]] = {}
    gone: list[int] = []
    for segment in log.segments:
        data = segment.log.read(0, segment.size)
        for position, header in iter_headers(data):
            if header.is_control:
                marker = read_marker(data, position, header)
                offsets = opened.pop(header.producer_id, [])
                if marker is not None and marker.aborted:
                    gone += offsets
            elif header.is_transactional:
                offsets = [record.offset for record in iter_records(data, position, header)]
                opened.setdefault(header.producer_id, []).extend(offsets)
    return frozenset(gone)


def expected(log: PartitionLog, first_dirty: int, end_offset: int, now_ms: int) -> dict[int, Record]:
    """Return the expected records after a cleaning of [first_dirty, end_offset)."""
    aborted = aborted_offsets(log)
    before = batches_of(log)
    latest: dict[bytes, int] = {}
    for header, records in before:
        for record in records:
            dirty = first_dirty <= record.offset < end_offset
            if dirty and record.key is not None and not header.is_control and record.offset not in aborted:
                latest[record.key] = record.offset
    left = {}
    for header, records in before:
        horizon_ms = header.delete_horizon_ms
        protected = horizon_ms is None or now_ms < horizon_ms
        for record in records:
            if header.is_control or record.offset in aborted:
                continue
            stays = record.offset >= end_offset or (
                record.key is not None
                and record.offset >= latest.get(record.key, -1)
                and (record.value is not None or protected)
            )
            if stays:
                left[record.offset] = record
    return left


def data_of(log: PartitionLog) -> dict[int, Record]:
    """Return the actual records without control records and those of aborted transactions."""
    aborted = aborted_offsets(log)
    return {
        record.offset: record
        for header, records in batches_of(log)
        for record in records
        if not header.is_control and record.offset not in aborted
    }
