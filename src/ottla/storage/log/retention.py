"""Which segments retention may delete: by age, by size, or below the log start offset; and their deletion."""

from __future__ import annotations

from typing import Protocol

from ottla.storage.errors import DiskFull
from ottla.storage.log.durability import Durability
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.log_config import LogConfig
from ottla.storage.log_dir import LogDir, offline_on_error
from ottla.storage.logger import logger
from ottla.storage.producers.log_producers import LogProducers
from ottla.storage.segments.segment import Segment
from ottla.storage.segments.segment_list import SegmentList


class RetainedLog(Protocol):
    """What these functions use of a PartitionLog."""

    directory: str
    log_start_offset: int
    log_end_offset: int
    config: LogConfig
    log_dir: LogDir
    segments: SegmentList
    leader_epochs: LeaderEpochs
    producers: LogProducers
    durability: Durability

    def require_usable(self) -> None: ...

    def abort_cleaning(self) -> None: ...

    def roll_at(self, base_offset: int, now_ms: int) -> Segment: ...

    def remove_later(self, paths: list[str], now_ms: int) -> None: ...


def delete_old_segments(log: RetainedLog, now_ms: int, upper_offset: int) -> int:
    """Delete the segments that retention allows, none at or above `upper_offset`; return their number.

    The files are renamed now and removed after file.delete.delay.ms.
    """
    log.require_usable()
    with offline_on_error(log.log_dir):
        count = deletable_count(
            log.segments,
            log.config,
            now_ms,
            upper_offset=upper_offset,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
        )
        if not count:
            return 0
        log.abort_cleaning()
        # The active segment comes last: a roll needs space, which a full disk has only after the others are
        # removed. A later pass tries again.
        closed = min(count, len(log.segments) - 1)
        if closed:
            _delete_first(log, closed, now_ms)
        if count > closed:
            try:
                log.roll_at(log.log_end_offset, now_ms)
            except DiskFull as error:
                if not closed:
                    raise
                logger.warning("%s: the active segment is not deleted yet: %s", log.directory, error)
                return closed
            _delete_first(log, 1, now_ms)
    return count


def _delete_first(log: RetainedLog, count: int, now_ms: int) -> None:
    start = max(log.log_start_offset, log.segments[count].base_offset)
    log.log_start_offset = start
    log.leader_epochs.truncate_from_start(start)
    log.remove_later(log.segments.delete_first(count), now_ms)
    log.producers.snapshots.remove_below(log.segments.first.base_offset)
    log.durability.changed = True
    logger.info("%s: %d segments deleted, log starts at %d", log.directory, count, start)


def deletable_count(
    segments: SegmentList,
    config: LogConfig,
    now_ms: int,
    *,
    upper_offset: int,
    log_start_offset: int,
    log_end_offset: int,
) -> int:
    """Return how many of the oldest segments may be deleted; all of them if even the active one has expired.

    No segment that reaches `upper_offset` (the high watermark), nor an empty active segment.
    """
    excess_bytes = segments.size_bytes - config.retention_bytes if config.retention_bytes >= 0 else -1
    count = 0
    for index, segment in enumerate(segments):
        end_offset = segments.end_offset(index, log_end_offset)
        is_active = index == len(segments) - 1
        if end_offset > upper_offset or (is_active and not segment.size):
            break
        below_start = not is_active and end_offset <= log_start_offset
        expired = (
            config.cleanup_delete
            and config.retention_ms >= 0
            and now_ms - segment.retention_timestamp() > config.retention_ms
        )
        too_many = config.cleanup_delete and excess_bytes - segment.size >= 0 and config.retention_bytes >= 0
        if not (below_start or expired or too_many):
            break
        excess_bytes -= segment.size
        count += 1
    return count
