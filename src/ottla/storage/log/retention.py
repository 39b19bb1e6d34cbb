"""Which segments retention may delete: by age, by size, or below the log start offset."""

from __future__ import annotations

from ottla.storage.log_config import LogConfig
from ottla.storage.segments.segment_list import SegmentList


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
