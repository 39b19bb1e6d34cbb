"""Cleaning of one log: collect the keys of its dirty part, then rewrite its segments without obsolete
records.

    job = CleanJob(log, plan, settings)       on the thread that owns the log
    while (step := job.step()) is not DONE:   in any thread, one at a time
        if isinstance(step, CleanedGroup):    to be swapped in, on the owner's thread
            log.replace_segments(step, now_ms)
    log.cleaned_offset = job.end_offset

The job has its own file handles and reads closed segments only. Any other change of these (truncation,
retention, deletion of the partition) aborts it: it ends with its next step, and leaves the log unchanged.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.storage.cleaning.chunks import Chunks, SegmentView
from ottla.storage.cleaning.key_offsets import KeyOffsets
from ottla.storage.cleaning.record_filter import LastOfProducer, RecordFilter
from ottla.storage.cleaning.segment_files import CleanedSegment
from ottla.storage.cleaning.transactions import CleanedTransactions
from ottla.storage.index.txn_index import AbortedTransaction, TxnIndex
from ottla.storage.segments.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    RELATIVE_OFFSET_MAX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)
from ottla.storage.segments.swap import CleanedGroup

if TYPE_CHECKING:
    from ottla.storage.cleaning.plan import CleanPlan
    from ottla.storage.log import PartitionLog
    from ottla.storage.producers.state import ProducerEntry

STEP_CHUNKS = 8  # chunks per step: switching threads costs as much as reading a small chunk


class CleanSettings(NamedTuple):
    """The broker properties log.cleaner.*"""

    buffer_bytes: int = 134_217_728
    load_factor: float = 0.9
    chunk_bytes: int = 262_144
    secret: bytes = bytes(16)


class CleaningAborted(Exception):
    """The log was changed while the job was running."""


class Pause(NamedTuple):
    """The end of a step: how many bytes it has read and written."""

    moved_bytes: int


DONE = None
Step = CleanedGroup | Pause | None


def _last_offsets(entry: ProducerEntry) -> tuple[int, ...]:
    if entry.last_data_offset < 0:
        return ()
    return (*(batch.last_offset for batch in entry.batches), entry.last_data_offset)


class CleanJob:
    __slots__ = (
        "_aborted_later",
        "_config",
        "_directory",
        "_files",
        "_now_ms",
        "_plan",
        "_producers",
        "_segments",
        "_settings",
        "_target",
        "_views",
        "_work",
        "aborted",
        "bytes_after",
        "bytes_before",
        "end_offset",
        "records_kept",
        "records_read",
    )

    def __init__(self, log: PartitionLog, plan: CleanPlan, settings: CleanSettings, now_ms: int) -> None:
        assert plan.first_dirty < plan.upper_offset
        segments = log.segments
        self._directory = log.directory
        self._config = log.config
        self._files = log.files.for_other_thread()
        self._plan = plan
        self._settings = settings
        self._now_ms = now_ms
        self._segments = [segment for segment in segments if segment.base_offset < plan.upper_offset]
        self._views = [
            SegmentView(
                segment.path(LOG_SUFFIX),
                segment.base_offset,
                segments.end_offset(index, log.log_end_offset),
                segment.size,
            )
            for index, segment in enumerate(self._segments)
        ]
        # Markers above the range may end transactions in it.
        self._aborted_later = log.aborted_transactions(plan.upper_offset, plan.upper_offset)
        self._producers = {
            entry.producer_id: LastOfProducer(_last_offsets(entry), entry.producer_epoch)
            for entry in log.producer_state.entries.values()
        }
        self._target: CleanedSegment | None = None
        self._work = self._steps()
        self.aborted = False
        self.end_offset = plan.first_dirty
        self.bytes_before = sum(view.size for view in self._views)
        self.bytes_after = 0
        self.records_read = 0
        self.records_kept = 0

    def abort(self) -> None:
        """Stop the job at its next step; called on the owner's thread."""
        self.aborted = True

    def step(self) -> Step:
        """Run one step. Raises CleaningAborted, StorageError, CorruptLog."""
        if self.aborted:
            raise CleaningAborted(self._directory)
        return next(self._work, DONE)

    def discard(self) -> None:
        """Remove files that were not swapped in."""
        self._work.close()
        if self._target is not None:
            self._target.discard()
            self._target = None

    def _steps(self) -> Generator[Step, None, None]:
        known = KeyOffsets(
            self._plan.first_dirty,
            self._plan.upper_offset,
            buffer_bytes=self._settings.buffer_bytes,
            load_factor=self._settings.load_factor,
            secret=self._settings.secret,
            transactions=CleanedTransactions(self._aborted()),
        )
        dirty = [view for view in self._views if view.end_offset > self._plan.first_dirty]
        moved = 0
        for nbytes in known.read(self._files, dirty, self._settings.chunk_bytes):
            moved += nbytes
            if moved >= STEP_CHUNKS * self._settings.chunk_bytes:
                yield Pause(moved)
                moved = 0
        record_filter = RecordFilter(
            known,
            CleanedTransactions(self._aborted()),
            self._producers,
            now_ms=self._now_ms,
            delete_retention_ms=self._config.delete_retention_ms,
        )
        transactions = record_filter.transactions
        for first, last in self._groups(known.end_offset):
            target = self._target = CleanedSegment(
                self._files,
                self._directory,
                self._views[first].base_offset,
                self._config.index_interval_bytes,
            )
            record_filter.begin(target)
            yield from self._filter(record_filter, self._views[first : last + 1])
            record_filter.end()
            target.finish(transactions.take_still_needed(), self._files.modified_ms(self._views[last].path))
            self.bytes_after += target.size
            if self.aborted:
                raise CleaningAborted(self._directory)
            yield CleanedGroup(target.base_offset, self._segments[first : last + 1])
            self._target = None
            self._files.sync_dir(self._directory)
        self.records_read, self.records_kept = record_filter.records_read, record_filter.records_kept
        self.end_offset = known.end_offset

    def _filter(self, record_filter: RecordFilter, views: list[SegmentView]) -> Iterator[Step]:
        moved = 0
        for view in views:
            chunks = Chunks(self._files, view, self._settings.chunk_bytes)
            for data in chunks:
                written = record_filter.target.size
                chunks.used = record_filter.take(view.path, data)
                moved += len(data) + record_filter.target.size - written
                if moved >= STEP_CHUNKS * self._settings.chunk_bytes:
                    yield Pause(moved)
                    moved = 0
        yield Pause(moved)

    def _aborted(self) -> list[AbortedTransaction]:
        """Return all aborted transactions that have records in the range."""
        found = list(self._aborted_later)
        for view in self._views:
            path = view.path[: -len(LOG_SUFFIX)] + TXN_INDEX_SUFFIX
            if self._files.size(path) > 0:
                index = TxnIndex(self._files, path, view.base_offset)
                found += index.entries()
                index.file.close()
        return found

    def _groups(self, end_offset: int) -> Iterator[tuple[int, int]]:
        """Yield groups (first, last) of neighbouring segments that fit into one segment."""
        config, views = self._config, self._views
        count = sum(view.base_offset < end_offset for view in views)
        first = 0
        while first < count:
            sizes = self._sizes(first)
            last = first
            while last + 1 < count:
                grown = [a + b for a, b in zip(sizes, self._sizes(last + 1), strict=True)]
                reach = views[last + 1].end_offset - 1 - views[first].base_offset
                if (
                    grown[0] > config.segment_bytes
                    or max(grown[1:]) > config.segment_index_bytes
                    or reach > RELATIVE_OFFSET_MAX
                ):
                    break
                sizes, last = grown, last + 1
            yield first, last
            first = last + 1

    def _sizes(self, index: int) -> list[int]:
        view = self._views[index]
        stem = view.path[: -len(LOG_SUFFIX)]
        indexes = (max(0, self._files.size(stem + suffix)) for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX))
        return [view.size, *indexes]
