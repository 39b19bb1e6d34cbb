"""Appends of several batches: a group of produce requests, records of this process, and replicated batches.

The append of a single produced batch is `PartitionLog.append_as_leader`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.records.batch import (
    LENGTH_PREFIX_BYTES,
    BatchHeader,
    CorruptBatch,
    RecordsError,
    crc_ok,
    iter_headers,
    stamp,
)
from ottla.storage.errors import CorruptLog, DiskFull, StorageError, UnexpectedAppendOffset
from ottla.storage.files import Bytes
from ottla.storage.log.durability import Durability
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.log_config import LogConfig
from ottla.storage.log_dir import LogDir
from ottla.storage.producers.batches import Headers, check_producers, continues, update_producers
from ottla.storage.producers.log_producers import LogProducers
from ottla.storage.producers.state import ProducerState
from ottla.storage.segments.segment import RELATIVE_OFFSET_MAX, Appended, Segment
from ottla.storage.segments.segment_list import SegmentList

if TYPE_CHECKING:
    from ottla.records.validate import CheckedRecords


class AppendResult(NamedTuple):
    first_offset: int
    last_offset: int
    log_append_time_ms: int
    duplicate: bool


class AppendableLog(Protocol):
    """What these functions use of a PartitionLog."""

    log_end_offset: int
    closed: bool
    config: LogConfig
    log_dir: LogDir
    segments: SegmentList
    leader_epochs: LeaderEpochs
    producers: LogProducers
    durability: Durability

    @property
    def producer_state(self) -> ProducerState: ...

    def require_usable(self) -> None: ...

    def roll_at(self, base_offset: int, now_ms: int) -> Segment: ...

    def truncate_fully_and_start_at(self, offset: int) -> None: ...

    def advance_log_start_offset(self, offset: int) -> bool: ...

    def append_as_leader(self, checked: CheckedRecords, leader_epoch: int, now_ms: int) -> AppendResult: ...


# -- a group of produce requests


def append_group(
    log: AppendableLog, group: Sequence[CheckedRecords], leader_epoch: int, now_ms: int
) -> list[AppendResult]:
    """See `PartitionLog.append_group`."""
    last_offset = log.log_end_offset + sum(checked.header.last_offset_delta + 1 for checked in group) - 1
    nbytes = sum(len(checked.buffer) for checked in group)
    latest = max(checked.header.max_timestamp for checked in group)
    if not log.segments.active.should_roll(nbytes, latest, last_offset, log.config, now_ms):
        return _append_together(log, group, leader_epoch)
    results: list[AppendResult] = []
    for checked in group:
        try:
            results.append(log.append_as_leader(checked, leader_epoch, now_ms))
        except (RecordsError, StorageError):
            if not results:
                raise
            break
    return results


def _append_together(
    log: AppendableLog, group: Sequence[CheckedRecords], leader_epoch: int
) -> list[AppendResult]:
    if log.log_dir.error is not None or log.closed:
        log.require_usable()
    state = log.producers.state or log.producer_state
    first_offset = log.log_end_offset
    results, buffers, batches, produced, end_offset = _prepare_group(state, group, first_offset, leader_epoch)
    if not buffers:
        return results
    try:
        log.segments.active.append(buffers, batches, log.config.index_interval_bytes)
    except StorageError as error:
        for buffer in buffers:
            stamp(buffer, 0, 0, leader_epoch)  # restore the buffers: the caller may retry
        if isinstance(error, DiskFull | CorruptLog):
            raise
        raise log.log_dir.fail(error) from error
    for header, offset in produced:
        state.update(header, offset)
    log.log_end_offset = state.map_end_offset = end_offset
    log.durability.changed = True
    if leader_epoch != log.leader_epochs.latest_epoch and leader_epoch >= 0:
        log.leader_epochs.assign(leader_epoch, first_offset)
    return results


class _PreparedGroup(NamedTuple):
    """Batches of several produce requests, stamped and ready for a single write."""

    results: list[AppendResult]
    buffers: list[bytearray | memoryview]
    batches: list[Appended]
    produced: list[tuple[BatchHeader, int]]  # batches of producers, with their first offset
    end_offset: int


def _prepare_group(
    state: ProducerState, group: Sequence[CheckedRecords], first_offset: int, leader_epoch: int
) -> _PreparedGroup:
    """Assign offsets to the batches of a group. The producer state is read, and changed after the write:
    nothing has to be undone if the disk is full.

    Stops before the first batch that the producer state rejects; if that is the first of the group, its
    RecordsError is raised. A duplicate gets the result of the original batch and is not written.
    """
    results: list[AppendResult] = []
    buffers: list[bytearray | memoryview] = []
    batches: list[Appended] = []
    produced: list[tuple[BatchHeader, int]] = []
    earlier: dict[int, BatchHeader] = {}  # of this group, by producer id
    offset = first_offset
    for checked in group:
        buffer, header = checked.buffer, checked.header
        if header.producer_id >= 0:
            before = earlier.get(header.producer_id)
            if before is None:
                try:
                    duplicate = state.check(header)
                except RecordsError:
                    if not results:
                        raise
                    break
                if duplicate is not None:
                    append_time_ms = duplicate.timestamp if checked.log_append_time_ms >= 0 else -1
                    results.append(
                        AppendResult(duplicate.first_offset, duplicate.last_offset, append_time_ms, True)
                    )
                    continue
            elif not continues(before, header):
                break  # only the state after this group can tell what the batch is
            earlier[header.producer_id] = header
            produced.append((header, offset))
        last_offset = offset + header.last_offset_delta
        stamp(buffer, 0, offset, leader_epoch)
        buffers.append(buffer)
        batches.append(Appended(len(buffer), last_offset, header.max_timestamp))
        results.append(AppendResult(offset, last_offset, checked.log_append_time_ms, False))
        offset = last_offset + 1
    return _PreparedGroup(results, buffers, batches, produced, offset)


# -- records of this process, and replicated batches


def append_leader_batches(
    log: AppendableLog, buffer: bytearray | memoryview, leader_epoch: int, now_ms: int
) -> AppendResult:
    """`PartitionLog.append_internal`: append batches that this process has built."""
    headers = list(iter_headers(buffer))
    check_producers(log.producer_state, buffer, headers)
    first_offset = log.log_end_offset
    offsets = _stamp_batches(buffer, headers, first_offset, leader_epoch)
    _write(log, buffer, headers, offsets, now_ms)
    if leader_epoch != log.leader_epochs.latest_epoch and leader_epoch >= 0:
        log.leader_epochs.assign(leader_epoch, first_offset)
    return AppendResult(first_offset, log.log_end_offset - 1, -1, False)


def append_follower_batches(log: AppendableLog, buffer: Bytes, now_ms: int) -> AppendResult:
    """`PartitionLog.append_as_follower`: write batches with the leader's offsets.

    An incomplete batch at the end of the buffer is ignored. An empty log may start inside of the first batch:
    DeleteRecords moves the leader's log start to any offset, and its log is read in whole batches.
    """
    headers = list(iter_headers(buffer))
    epoch_start = start_offset = log.log_end_offset
    if not headers:
        return AppendResult(epoch_start, epoch_start - 1, -1, False)
    first = headers[0][1]
    if first.base_offset < start_offset <= first.last_offset and not log.segments.size_bytes:
        epoch_start = first.base_offset
    _check_replicated(buffer, headers, epoch_start)
    if epoch_start < start_offset:
        log.truncate_fully_and_start_at(epoch_start)  # no segment contains a batch below its base offset
    end = headers[-1][0] + headers[-1][1].size_bytes
    offsets = [header.base_offset for _, header in headers]
    _write(log, memoryview(buffer)[:end], headers, offsets, now_ms)
    for _, header in headers:
        if header.leader_epoch >= 0 and header.leader_epoch != log.leader_epochs.latest_epoch:
            # If compaction left a gap before the batch, the epoch may have begun in the gap. It must start at
            # the gap: what another replica wrote there under an older epoch is not part of this log.
            log.leader_epochs.assign(header.leader_epoch, epoch_start)
        epoch_start = header.next_offset
    if offsets[0] < start_offset:
        log.advance_log_start_offset(start_offset)
    return AppendResult(offsets[0], log.log_end_offset - 1, -1, False)


def _write(log: AppendableLog, buffer: Bytes, headers: Headers, offsets: list[int], now_ms: int) -> None:
    """Write stamped batches, rolling the segment first if it is due, then update the producer state."""
    if log.log_dir.error is not None or log.closed:
        log.require_usable()
    batches, max_timestamp, has_producer = _list_batches(headers, offsets)
    last_offset = batches[-1][1]
    try:
        # Loading the state reads snapshot and log, which must not contain these batches yet.
        state = log.producers.state or log.producer_state
        active = log.segments.active
        if active.should_roll(len(buffer), max_timestamp, last_offset, log.config, now_ms):
            # The new segment starts at the log end offset even if the leader's compaction left a gap after
            # it: recovery takes a gap between two segments for a lost segment.
            fits = last_offset - log.log_end_offset <= RELATIVE_OFFSET_MAX
            active = log.roll_at(log.log_end_offset if fits else offsets[0], now_ms)
        active.append((buffer,), batches, log.config.index_interval_bytes)
        log.log_end_offset = last_offset + 1
        log.durability.changed = True
        if has_producer:
            update_producers(state, active, buffer, headers, offsets)
            if active.unsynced_txn_index() is not None:
                log.durability.txn_indexes_changed(active.base_offset)
        state.map_end_offset = last_offset + 1
    except (DiskFull, CorruptLog):
        raise
    except StorageError as error:
        raise log.log_dir.fail(error) from error


def _stamp_batches(
    buffer: bytearray | memoryview, headers: Headers, first_offset: int, leader_epoch: int
) -> list[int]:
    """Write consecutive offsets and the leader epoch into the batches; return their base offsets."""
    offset = first_offset
    offsets = []
    for position, header in headers:
        stamp(buffer, position, offset, leader_epoch)
        offsets.append(offset)
        offset += header.last_offset_delta + 1
    return offsets


def _check_replicated(buffer: Bytes, headers: Headers, log_end_offset: int) -> None:
    """Check the offsets and checksums of batches fetched from the leader."""
    expected = log_end_offset
    for position, header in headers:
        if header.base_offset < expected:
            raise UnexpectedAppendOffset(header.base_offset, expected)
        if not crc_ok(buffer, position, header):
            raise CorruptBatch(f"checksum mismatch in the batch at offset {header.base_offset}")
        expected = header.next_offset


class _BatchList(NamedTuple):
    """What the segment needs to know about the batches of one buffer."""

    batches: list[Appended]
    max_timestamp: int
    has_producer: bool


def _list_batches(headers: Headers, offsets: Sequence[int]) -> _BatchList:
    """Collect what the indexes need for batches that get the base offsets `offsets`."""
    batches = []
    max_timestamp = -1
    has_producer = False
    for (_, header), offset in zip(headers, offsets, strict=True):
        batches.append(
            Appended(
                header.batch_length + LENGTH_PREFIX_BYTES,
                offset + header.last_offset_delta,
                header.max_timestamp,
            )
        )
        max_timestamp = max(max_timestamp, header.max_timestamp)
        if header.producer_id >= 0:
            has_producer = True
    return _BatchList(batches, max_timestamp, has_producer)
