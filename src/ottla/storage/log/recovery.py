"""Opening a partition directory, whatever the last process left in it.

After a clean stop the indexes, snapshot and epochs are taken as they are; only the end of the last segment is
read, which gives the log end offset and shows whether the file really ends in a whole batch.

After any other stop the segments from the recovery point on are read in full. The log ends before the first
batch whose checksum does not hold; what comes after is cut off, and indexes, producer state and epochs are
made again. Damage below the recovery point is different: that data was synced, so it is reported and not cut.
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
    """What opening found. `producer_state` is None when it can be read from its snapshot on first use."""

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
    """`cleaned_offset`: below it another program's compaction may have left gaps between segments."""
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
    # The log start moved up before the power went, and the epochs were cut there; it is back where it was if
    # its own checkpoint had not been synced.
    lost_their_start = log.recovered and log.leader_epochs.first_start_offset > log.log_start_offset
    if not epochs_usable or lost_their_start:
        _learn_epochs(log)
    log.leader_epochs.truncate_from_end(log.log_end_offset)
    log.leader_epochs.truncate_from_start(log.log_start_offset)
    log.snapshots.remove_above(log.log_end_offset)
    if log.recovered:
        log.producer_state = ProducerState()
        log.snapshots.load_latest(log.producer_state, log.log_start_offset)
        replay(log.producer_state, log.segments, log.log_start_offset, log.log_end_offset)
    return log


def _sort_names(files: Files, directory: str, names: list[str]) -> tuple[list[int], list[int]]:
    """(base offsets of the segments, offsets of the snapshots); indexes without a log are removed."""
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
            logger.warning("removing %s/%s: there is no segment for it", directory, name)
            files.remove(f"{directory}/{name}")
    return sorted(bases), snapshots


def _load_clean(log: LoadedLog, directory: str, clean: bool, recovery_point: int | None) -> bool:
    """Believe a clean stop, if the end of the log agrees."""
    if not clean and not (log.created and not recovery_point):
        return False
    active = log.segments.active
    try:
        end = active.next_offset()
    except CorruptLog as error:
        logger.error("%s was closed in order, but its end is damaged: %s", directory, error)
        return False
    if recovery_point is not None and end < recovery_point:
        logger.error("%s ends at %d, but was closed at %d", directory, end, recovery_point)
        return False
    active.close()
    log.log_end_offset = end
    log.recovery_point = end if recovery_point is None else max(recovery_point, active.base_offset)
    return True


def _recover(
    log: LoadedLog,
    files: Files,
    directory: str,
    config: LogConfig,
    recovery_point: int,
    cleaned_offset: int,
) -> None:
    """Read every segment that reaches the recovery point or lies behind it; cut at the first bad batch."""
    log.recovered = True
    segments = log.segments
    first = segments.floor(recovery_point)
    # Later snapshots describe data that is read again anyway.
    log.snapshots.remove_above(segments[first].base_offset)
    index = first
    end_offset = segments[first].base_offset
    while index < len(segments):
        segment = segments[index]
        if segment.base_offset < end_offset:
            reason = f"segment {segment.base_offset} begins before the one before it ends ({end_offset})"
            raise CorruptLog(directory, reason)
        if index > first and segment.base_offset > max(end_offset, cleaned_offset):
            # The name of the segment between was lost, though this one's was not: what follows is no log.
            # Nor does compaction leave such a gap: segments begin where the one before them ends.
            index -= 1
            break
        end_offset, whole = _recover_segment(log, segment, config, recovery_point)
        if not whole:
            break
        index += 1
    else:
        index -= 1
    if end_offset < recovery_point:
        reason = f"damaged at offset {end_offset}, below the recovery point {recovery_point}"
        logger.error("%s: %s; the partition stays offline", directory, reason)
        raise CorruptLog(directory, reason)
    dropped = segments.drop_after(index)
    for segment in dropped:
        logger.warning("%s: segment %d lies behind the cut and goes", directory, segment.base_offset)
        segment.remove()
    if dropped:
        files.sync_dir(directory)
    log.log_end_offset = end_offset
    log.recovery_point = min(recovery_point, end_offset)


def _recover_segment(
    log: LoadedLog, segment: Segment, config: LogConfig, recovery_point: int
) -> tuple[int, bool]:
    """(offset at which the good batches end, is the whole file good)."""
    epochs = log.leader_epochs
    segment.reset_indexes()
    end_offset = segment.base_offset
    good_bytes = 0
    epoch = before = NO_EPOCH  # of the last batch, and of the one before it
    for position, header, ok in iter_checked(segment.log, 0, segment.size):
        if not ok or not _continues(header, segment, end_offset, recovery_point, config):
            break
        if header.leader_epoch < epoch and header.base_offset >= recovery_point:
            # Epochs only rise: the checksum does not cover them, and this or the last one is damaged. If only
            # the last one sticks out it is the last one, which an earlier recovery took for good: what was
            # written behind it since may have been acknowledged.
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
            "%s: cutting %d bytes that are no whole batch, from offset %d",
            segment.log.path,
            segment.size - good_bytes,
            end_offset,
        )
        segment.cut(good_bytes)
        segment.log.sync()
    segment.mark_checked()
    segment.write_indexes()
    return end_offset, whole


def _continues(
    header: BatchHeader, segment: Segment, end_offset: int, recovery_point: int, config: LogConfig
) -> bool:
    """Can this batch come next? Its offset is not covered by the checksum, so it is checked on its own."""
    if (
        not end_offset
        <= header.base_offset
        <= header.last_offset
        <= segment.base_offset + RELATIVE_OFFSET_MAX
    ):
        return False
    # Only cleaning leaves gaps, and never in what was not synced.
    return header.base_offset == end_offset or config.cleanup_compact or header.base_offset < recovery_point


def _restart_at(log: LoadedLog, directory: str, now_ms: int) -> None:
    """Everything was deleted up to a log start offset that the files no longer reach: begin again there."""
    start = log.log_start_offset
    logger.warning("%s ends at %d, before its log start offset %d", directory, log.log_end_offset, start)
    log.segments.restart_at(start, now_ms)
    # The recovery point stays: the name of the new segment is not durable yet.
    log.log_end_offset = start
    log.leader_epochs.clear()
    log.snapshots.remove_above(-1)
    log.recovered = True


def _learn_epochs(log: LoadedLog) -> None:
    logger.warning("%s: learning the leader epochs from the log", log.segments.first.directory)
    log.leader_epochs.clear()
    for segment in log.segments:
        for _, header in iter_batches(segment.log, 0, segment.size):
            if header.leader_epoch > log.leader_epochs.latest_epoch:
                log.leader_epochs.assign(header.leader_epoch, header.base_offset)
