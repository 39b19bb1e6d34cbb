"""Which part of a log may be cleaned, and whether it is due.

Cleanable are whole segments below the last stable offset and the recovery point, except the active segment
and records younger than min.compaction.lag.ms. Everything below `cleaned_offset` was cleaned before and
contains each key once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.storage.log import PartitionLog
    from ottla.storage.log_config import LogConfig
    from ottla.storage.segments.segment import Segment
    from ottla.storage.segments.segment_list import SegmentList


class CleanPlan(NamedTuple):
    first_dirty: int
    upper_offset: int  # base offset of a segment: it and all later ones are not cleaned
    clean_bytes: int
    dirty_bytes: int
    overdue: bool  # max.compaction.lag.ms has passed for the oldest dirty record

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, config: LogConfig) -> bool:
        if not self.dirty_bytes:
            return False
        return self.overdue or self.ratio > config.min_cleanable_dirty_ratio


def plan_clean(log: PartitionLog, stable_offset: int, now_ms: int) -> CleanPlan:
    """`stable_offset`: the last stable offset of the partition."""
    segments, config = log.segments, log.config
    first_dirty = log.cleaned_offset
    if not log.log_start_offset <= first_dirty <= log.log_end_offset:
        first_dirty = log.log_start_offset
    bound = min(stable_offset, segments.active.base_offset, log.recovery_point)
    index = segments.floor(bound)
    upper = segments[index].base_offset
    first = segments.floor(first_dirty)
    if config.min_compaction_lag_ms > 0:
        upper = _before_young(segments, first, upper, now_ms - config.min_compaction_lag_ms)
    upper = max(first_dirty, upper)
    dirty_bytes = clean_bytes = 0
    dirty: list[Segment] = []
    for at, segment in enumerate(segments):
        if segment.base_offset >= upper:
            break
        if segment.base_offset < first_dirty:
            clean_bytes += segment.size
        if at >= first and first_dirty < upper:
            dirty_bytes += segment.size
            dirty.append(segment)
    return CleanPlan(first_dirty, upper, clean_bytes, dirty_bytes, _is_overdue(dirty, config, now_ms))


def _before_young(segments: SegmentList, first: int, upper: int, old_enough_ms: int) -> int:
    """Return the base offset of the first dirty segment with a record younger than min.compaction.lag.ms."""
    for at in range(first, len(segments)):
        segment = segments[at]
        if segment.base_offset >= upper:
            break
        if segment.max_timestamp > old_enough_ms:
            return segment.base_offset
    return upper


def _is_overdue(dirty: list[Segment], config: LogConfig, now_ms: int) -> bool:
    latest_ms = now_ms - config.max_compaction_lag_ms
    if latest_ms <= 0:
        return False
    return any(segment.size and 0 < segment.first_timestamp < latest_ms for segment in dirty)
