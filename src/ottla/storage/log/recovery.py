"""Loading a partition directory after a clean or an unclean shutdown.

After a clean shutdown indexes, snapshot and epochs are trusted. Only the end of the last segment is read: it
gives the log end offset, and shows whether the file ends with a whole batch.

After an unclean shutdown the segments from the recovery point on are scanned. The log is truncated before the
first batch with a wrong checksum, and indexes, producer state and epochs are rebuilt. Damage below the
recovery point is an error: that data was synced, so it is reported and not truncated.
"""

from __future__ import annotations

from ottla.records.batch import BatchHeader
from ottla.storage.errors import CorruptLog
from ottla.storage.files import Files
from ottla.storage.log.leader_epochs import NO_EPOCH, LeaderEpochs
from ottla.storage.log_config import LogConfig
from ottla.storage.logger import logger
from ottla.storage.producers.snapshot_format import SNAPSHOT_SUFFIX
from ottla.storage.producers.snapshots import ProducerSnapshots, replay
from ottla.storage.producers.state import ProducerState
from ottla.storage.segments.batch_scan import iter_batches, iter_checked
from ottla.storage.segments.interrupted_changes import finish_interrupted_changes
from ottla.storage.segments.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    RELATIVE_OFFSET_MAX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
)
from ottla.storage.segments.segment_list import SegmentList


class LoadedLog:
    """The result of loading. `producer_state` is None if it can be loaded from its snapshot on first use."""

    __slots__ = (
        "created",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "producer_state",
        "recovered",
        "recovery_point",
        "segments",
        "snapshots",
    )

    segments: SegmentList
    snapshots: ProducerSnapshots
    leader_epochs: LeaderEpochs
    producer_state: ProducerState | None
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    created: bool
    recovered: bool


def load_log(
    files: Files,
    directory: str,
    config: LogConfig,
    now_ms: int,
    *,
    clean: bool,
    recovery_point: int | None,
    start: int,
    cleaned_offset: int = 0,
) -> LoadedLog:
    """Load a log. Below `cleaned_offset` compaction by another program may have left gaps between
    segments."""
    names = finish_interrupted_changes(files, directory, files.listdir(directory))
    bases, snapshot_offsets = _sort_names(files, directory, names)
    log = LoadedLog()
    log.recovered = False
    log.producer_state = None
    log.created = not bases
    if bases:
        segments = [Segment.load(files, directory, base, now_ms) for base in bases]
    else:
        segments = [Segment.create(files, directory, start, now_ms)]
    log.segments = SegmentList(files, directory, segments)
    log.snapshots = ProducerSnapshots(files, directory, snapshot_offsets)
    log.leader_epochs = LeaderEpochs()
    epochs_usable = log.leader_epochs.load(files, directory)
    if not _load_clean(log, directory, clean, recovery_point):
        _recover(log, files, directory, config, recovery_point or 0, cleaned_offset)
    log.log_start_offset = max(start, log.segments.first.base_offset)
    if log.log_start_offset > log.log_end_offset:
        _restart_at(log, directory, now_ms)
    # The log start offset may have advanced, and the epochs been truncated to it, before a power loss that
    # undid the unsynced checkpoint of the log start offset.
    epochs_start_too_late = log.recovered and log.leader_epochs.first_start_offset > log.log_start_offset
    if not epochs_usable or epochs_start_too_late:
        _rebuild_epochs(log)
    log.leader_epochs.truncate_from_end(log.log_end_offset)
    log.leader_epochs.truncate_from_start(log.log_start_offset)
    log.snapshots.remove_above(log.log_end_offset)
    if log.recovered:
        log.producer_state = ProducerState()
        log.snapshots.load_latest(log.producer_state, log.log_start_offset)
        replay(log.producer_state, log.segments, log.log_start_offset, log.log_end_offset)
    return log


def _sort_names(files: Files, directory: str, names: list[str]) -> tuple[list[int], list[int]]:
    """Return (base offsets of the segments, offsets of the snapshots); remove indexes without a log."""
    bases = set()
    snapshots = []
    indexes = []
    for name in names:
        stem, dot, suffix = name.rpartition(".")
        if not (len(stem) == 20 and stem.isascii() and stem.isdigit()):
            continue
        kind = dot + suffix
        if kind == LOG_SUFFIX:
            bases.add(int(stem))
        elif kind == SNAPSHOT_SUFFIX:
            snapshots.append(int(stem))
        elif kind in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
            indexes.append((int(stem), name))
    for base, name in indexes:
        if base not in bases:
            logger.warning("removing %s/%s: it has no segment", directory, name)
            files.remove(f"{directory}/{name}")
    return sorted(bases), snapshots


def _load_clean(log: LoadedLog, directory: str, clean: bool, recovery_point: int | None) -> bool:
    """Load a cleanly closed log; return False if the end of the log contradicts that."""
    if not clean and not (log.created and not recovery_point):
        return False
    active = log.segments.active
    try:
        end = active.next_offset()
    except CorruptLog as error:
        logger.error("%s was closed cleanly, but its end is damaged: %s", directory, error)
        return False
    if recovery_point is not None and end < recovery_point:
        logger.error("%s ends at %d, but was closed at %d", directory, end, recovery_point)
        return False
    active.close()
    log.log_end_offset = end
    log.recovery_point = end if recovery_point is None else max(recovery_point, active.base_offset)
    return True


class _Gaps:
    """Which gaps between offsets recovery accepts.

    Compaction leaves gaps. They outlive the policy, and a follower copies them, so neither the policy nor the
    recovery point says whether a log has any. The checksum does not cover the offset of a batch, so a gap may
    also be a damaged offset. What comes after the batch tells them apart: it continues at the damaged or at
    the original offset.
    """

    __slots__ = ("expected", "recovery_point")

    def __init__(self, recovery_point: int, *, expected: bool) -> None:
        self.recovery_point = recovery_point
        self.expected = expected  # the log is or was compacted

    def accept(
        self, header: BatchHeader, end_offset: int, following: int | None, next_base: int | None
    ) -> bool:
        """Whether a batch may come after a gap at `end_offset`. `following` is the base offset of the next
        batch in the segment, `next_base` that of the next segment."""
        if following is not None and following > end_offset + header.last_offset_delta:
            confirmed = header.next_offset <= following
        elif next_base is not None:
            confirmed = header.next_offset <= next_base
        else:
            # The last batch of the log: nothing confirms its offset. A gap that begins below the recovery
            # point had records, which only compaction removes.
            return self.expected or end_offset < self.recovery_point
        self.expected |= confirmed
        return confirmed


def _recover(
    log: LoadedLog,
    files: Files,
    directory: str,
    config: LogConfig,
    recovery_point: int,
    cleaned_offset: int,
) -> None:
    """Scan the segments from the recovery point on, and truncate the log at the first invalid batch."""
    log.recovered = True
    segments = log.segments
    first = segments.floor(recovery_point)
    # Later snapshots describe data that is scanned anyway.
    log.snapshots.remove_above(segments[first].base_offset)
    index = first
    end_offset = segments[first].base_offset
    gaps = _Gaps(recovery_point, expected=config.cleanup_compact or cleaned_offset > 0)
    while index < len(segments):
        segment = segments[index]
        if segment.base_offset < end_offset:
            reason = f"segment {segment.base_offset} begins before the end of its predecessor ({end_offset})"
            raise CorruptLog(directory, reason)
        if index > first and segment.base_offset > max(end_offset, cleaned_offset):
            # The segment in between was lost, because its directory entry was not synced. Compaction does not
            # leave such a gap: a segment begins at the end of its predecessor.
            index -= 1
            break
        next_base = segments[index + 1].base_offset if index + 1 < len(segments) else None
        end_offset, whole = _recover_segment(log, segment, config, gaps, next_base)
        if not whole:
            break
        index += 1
    else:
        index -= 1
    if end_offset < recovery_point:
        reason = f"damaged at offset {end_offset}, below the recovery point {recovery_point}"
        logger.error("%s: %s; the partition is offline", directory, reason)
        raise CorruptLog(directory, reason)
    dropped = segments.drop_after(index)
    for segment in dropped:
        logger.warning("%s: removing segment %d after the truncation point", directory, segment.base_offset)
        segment.remove()
    if dropped:
        files.sync_dir(directory)
    log.log_end_offset = end_offset
    log.recovery_point = min(recovery_point, end_offset)


def _recover_segment(
    log: LoadedLog, segment: Segment, config: LogConfig, gaps: _Gaps, next_base: int | None
) -> tuple[int, bool]:
    """Return (end offset of the valid batches, whether the whole file is valid)."""
    epochs = log.leader_epochs
    recovery_point = gaps.recovery_point
    highest_offset = segment.base_offset + RELATIVE_OFFSET_MAX
    segment.reset_indexes()
    end_offset = segment.base_offset
    good_bytes = 0
    epoch = before = NO_EPOCH  # of the last batch, and of the batch before it
    scan = iter_checked(segment.log, 0, segment.size)
    found = next(scan, None)
    while found is not None:
        position, header, ok = found
        if not ok or not end_offset <= header.base_offset <= header.last_offset <= highest_offset:
            break
        found = next(scan, None)
        if header.base_offset != end_offset:
            following = found[1].base_offset if found is not None else None
            if not gaps.accept(header, end_offset, following, next_base):
                break
        if header.leader_epoch < epoch and header.base_offset >= recovery_point:
            # Epochs never decrease, but the checksum does not cover them: this one or the previous one is
            # damaged. If only the previous one is too high, an earlier recovery accepted it, and the batches
            # after it may have been acknowledged.
            if not NO_EPOCH < before <= header.leader_epoch:
                break
            epochs.assign(header.leader_epoch, header.base_offset)
        before, epoch = epoch, header.leader_epoch
        segment.index_batch(position, header, config.index_interval_bytes)
        if header.leader_epoch > epochs.latest_epoch:
            epochs.assign(header.leader_epoch, header.base_offset)
        good_bytes = position + header.size_bytes
        end_offset = header.next_offset
    whole = good_bytes == segment.size
    if not whole and end_offset >= recovery_point:
        logger.warning(
            "%s: truncating %d bytes that are not a valid batch, at offset %d",
            segment.log.path,
            segment.size - good_bytes,
            end_offset,
        )
        segment.cut(good_bytes)
        segment.log.sync()
    segment.mark_checked()
    segment.write_indexes()
    return end_offset, whole


def _restart_at(log: LoadedLog, directory: str, now_ms: int) -> None:
    """Recreate the log at its log start offset, which is above the end of the files."""
    start = log.log_start_offset
    logger.warning("%s ends at %d, before its log start offset %d", directory, log.log_end_offset, start)
    log.segments.restart_at(start, now_ms)
    # The recovery point does not move: the directory entry of the new segment is not synced yet.
    log.log_end_offset = start
    log.leader_epochs.clear()
    log.snapshots.remove_above(-1)
    log.recovered = True


def _rebuild_epochs(log: LoadedLog) -> None:
    logger.warning("%s: rebuilding the leader epochs from the log", log.segments.first.directory)
    log.leader_epochs.clear()
    for segment in log.segments:
        for _, header in iter_batches(segment.log, 0, segment.size):
            if header.leader_epoch > log.leader_epochs.latest_epoch:
                log.leader_epochs.assign(header.leader_epoch, header.base_offset)
