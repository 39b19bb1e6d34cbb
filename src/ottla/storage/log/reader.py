"""Reading batches by offset."""

from __future__ import annotations

from ottla.storage.log.region import EMPTY_REGION, FileRegion
from ottla.storage.segments.segment import Segment
from ottla.storage.segments.segment_list import SegmentList

_POSITIONS_MAX = 32


class LogReader:
    """Finds regions of whole batches, and remembers where they ended: a sequential reader needs no search.

    `_positions`: offset -> (segment, position of the first batch whose last offset is >= offset). Replace the
    reader when segments are truncated or replaced.
    """

    __slots__ = ("_positions", "_segments")

    def __init__(self, segments: SegmentList) -> None:
        self._segments = segments
        self._positions: dict[int, tuple[Segment, int]] = {}

    def read(
        self, offset: int, max_bytes: int, upper_offset: int, log_end_offset: int, min_one_batch: bool
    ) -> FileRegion:
        """Return whole batches of one segment from the one that contains `offset`, below `upper_offset`."""
        assert offset < upper_offset <= log_end_offset
        segments = self._segments
        for index in range(segments.floor(offset), len(segments)):
            segment = segments[index]
            if segment.base_offset >= upper_offset:
                break
            position = self._known_position(offset, segment)
            if position < 0:
                found = segment.find(offset)
                if found is None:
                    # Compaction removed everything from `offset` to the end of this segment.
                    continue
                position = found[0]
            if position >= segment.size:
                continue
            if segments.end_offset(index, log_end_offset) <= upper_offset:
                limit = segment.size
            else:
                limit = self._position_of(upper_offset, segment)
            if limit <= position:
                break
            end, next_offset = _end(segment, position, limit, upper_offset, max_bytes, min_one_batch)
            if end == position:
                break
            checked_end = segment.check(position, end)
            if checked_end == end and end < segment.size + (segment is segments.active):
                self._remember(next_offset, segment, end)
            return FileRegion(segment.log, position, checked_end - position, next_offset, segment=segment)
        return EMPTY_REGION

    def _position_of(self, upper_offset: int, segment: Segment) -> int:
        """The position in the segment where `upper_offset` begins."""
        position = self._known_position(upper_offset, segment)
        if position < 0:
            found = segment.find(upper_offset)
            position = segment.size if found is None else found[0]
            self._remember(upper_offset, segment, position)
        return position

    def _known_position(self, offset: int, segment: Segment) -> int:
        """The remembered position, or -1. A position in another segment is outdated."""
        known = self._positions.get(offset)
        return known[1] if known is not None and known[0] is segment else -1

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        positions = self._positions
        if offset not in positions and len(positions) >= _POSITIONS_MAX:
            del positions[next(iter(positions))]
        positions[offset] = (segment, position)


def _end(
    segment: Segment, position: int, limit: int, upper_offset: int, max_bytes: int, min_one_batch: bool
) -> tuple[int, int]:
    """(position where the region ends, offset that follows it)."""
    if limit - position <= max_bytes:
        return limit, upper_offset
    end, next_offset = segment.end_of_batches(position, position + max(0, max_bytes))
    if end == position and min_one_batch:
        header = segment.header_at(position)
        return position + header.size_bytes, header.next_offset
    return end, next_offset
