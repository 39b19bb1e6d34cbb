"""Loading the producer state: the newest valid snapshot, then the batches after it.

A snapshot contains only the last batch of each producer, but a producer may retry any of its last five. When
a batch arrives that could be such a retry, the earlier batches are read from the log.
"""

from __future__ import annotations

from ottla.storage.errors import CorruptLog
from ottla.storage.files import File, Files
from ottla.storage.logger import logger
from ottla.storage.producers.markers import read_marker
from ottla.storage.producers.snapshot_format import (
    SNAPSHOT_SUFFIX,
    CorruptSnapshot,
    decode_snapshot,
    encode_snapshot,
)
from ottla.storage.producers.state import BATCHES_KEPT, KeptBatch, ProducerEntry, ProducerState
from ottla.storage.segments.batch_scan import iter_batches, iter_producer_batches
from ottla.storage.segments.segment import Segment
from ottla.storage.segments.segment_list import SegmentList

RECALL_STEP_BYTES = 64 * 1024
RECALL_BYTES_MAX = 5 << 20  # five batches of the default max.message.bytes


def snapshot_path(directory: str, offset: int) -> str:
    return f"{directory}/{offset:020d}{SNAPSHOT_SUFFIX}"


class ProducerSnapshots:
    """The snapshot files of a partition, by offset."""

    __slots__ = ("_files", "directory", "offsets")

    def __init__(self, files: Files, directory: str, offsets: list[int]) -> None:
        self._files = files
        self.directory = directory
        self.offsets = sorted(offsets)

    @property
    def latest(self) -> int:
        return self.offsets[-1] if self.offsets else -1

    def latest_file(self) -> list[File]:
        """The newest snapshot file, for syncing; empty if there is none."""
        return [self._files.open(snapshot_path(self.directory, self.latest))] if self.offsets else []

    def write(self, state: ProducerState, segments: SegmentList) -> None:
        """Write a snapshot, and remove older ones unless a segment begins at their offset."""
        offset = state.map_end_offset
        data = encode_snapshot(state.entries.values())
        self._files.write_atomic(snapshot_path(self.directory, offset), data, durable=False)
        bases = {segment.base_offset for segment in segments}
        for old in [old for old in self.offsets if old not in bases and old != offset]:
            self.remove(old)
        if offset not in self.offsets:
            self.offsets.append(offset)
            self.offsets.sort()

    def remove(self, offset: int) -> None:
        self._files.remove(snapshot_path(self.directory, offset))
        self.offsets.remove(offset)

    def remove_above(self, offset: int) -> None:
        for late in [late for late in self.offsets if late > offset]:
            self.remove(late)

    def remove_below(self, offset: int) -> None:
        for early in [early for early in self.offsets if early < offset]:
            self.remove(early)

    def load_latest(self, state: ProducerState, log_start_offset: int) -> None:
        """Load the newest valid snapshot; remove damaged ones."""
        while self.offsets:
            offset = self.offsets[-1]
            data = self._files.read_bytes(snapshot_path(self.directory, offset))
            try:
                if data is None:
                    raise CorruptSnapshot("gone")
                state.load(decode_snapshot(data), offset)
                return
            except CorruptSnapshot as error:
                logger.warning(
                    "ignoring producer snapshot %s: %s", snapshot_path(self.directory, offset), error
                )
                self.remove(offset)
        state.load([], log_start_offset)


def replay(state: ProducerState, segments: SegmentList, log_start_offset: int, log_end_offset: int) -> None:
    """Apply the batches from the state's offset on, and rewrite the index entries of their aborted
    transactions."""
    start = max(state.map_end_offset, log_start_offset)
    state.recall = lambda entry: recall(entry, segments)
    for index in range(segments.floor(start), len(segments)):
        segment = segments[index]
        if segment.size and segments.end_offset(index, log_end_offset) > start:
            _replay_segment(state, segments, index, start)
    state.map_end_offset = log_end_offset


def _replay_segment(state: ProducerState, segments: SegmentList, index: int, start: int) -> None:
    segment = segments[index]
    found = segment.find(start)
    if found is None:
        return
    if segment.txn_index:
        segment.txn_index.truncate_to(start)
    for chunk, batches in iter_producer_batches(segment.log, found[0], segment.size):
        for position, header in batches:
            if not header.is_control:
                state.update(header, header.base_offset)
                continue
            marker = read_marker(chunk, position, header)
            if marker is None:
                continue
            completed = state.end_transaction(
                header, header.base_offset, marker.coordinator_epoch, aborted=marker.aborted
            )
            if completed is not None and completed.aborted:
                segment.txn_index.append(state.aborted_entry(completed))


def recall(entry: ProducerEntry, segments: SegmentList) -> None:
    """Read earlier batches of a producer from the log, until BATCHES_KEPT of them are known."""
    entry.complete = True  # even if not all are found: this is done once
    try:
        index = segments.floor(entry.batches[0].first_offset)
        found = segments[index].find(entry.batches[0].first_offset)
        end = 0 if found is None else found[0]
        step, left = RECALL_STEP_BYTES, RECALL_BYTES_MAX
        while left > 0 and len(entry.batches) < BATCHES_KEPT and entry.batches[0].first_sequence:
            if end == 0:
                index -= 1
                if index < 0:
                    return
                end = segments[index].size
                continue
            start = segments[index].offset_index.position_at_or_before(max(0, end - step))
            _recall_range(entry, segments[index], start, end)
            left -= end - start
            end = start
            step *= 2
    except CorruptLog as error:
        logger.warning("cannot read earlier batches of producer %d: %s", entry.producer_id, error)


def _recall_range(entry: ProducerEntry, segment: Segment, start: int, end: int) -> None:
    """Insert the producer's batches in [start, end) before the known ones."""
    older = [
        KeptBatch(
            header.base_sequence,
            header.last_sequence,
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
        )
        for _, header in iter_batches(segment.log, start, end)
        if header.producer_id == entry.producer_id
        and header.producer_epoch == entry.producer_epoch
        and header.base_sequence >= 0
        and not header.is_control
    ]
    missing = BATCHES_KEPT - len(entry.batches)
    entry.batches[:0] = older[-missing:]
