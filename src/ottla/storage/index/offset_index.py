"""The sparse offset index (`.index`): the position of the batch that ends at an offset.

Entry, 8 bytes big-endian: int32 offset relative to the segment's base (the last offset of a batch), int32
position of that batch. One entry per index.interval.bytes of log.
"""

from __future__ import annotations

from struct import Struct

from ottla.storage.index.index_file import CorruptIndex, IndexFile

OFFSET_ENTRY_BYTES = 8


class OffsetIndex(IndexFile):
    ENTRY = Struct(">ii")

    __slots__ = ()

    def append(self, offset: int, position: int) -> None:
        relative = offset - self.base_offset
        assert 0 <= relative < 1 << 31, "the segment should have been rolled"
        self._push(relative, position)

    def position_for(self, offset: int) -> int:
        """Return a position at or before the first batch whose last offset is >= `offset`."""
        index = self.floor(offset - self.base_offset)
        return 0 if index < 0 else self.entry(index)[1]

    def floor_entry(self, offset: int) -> tuple[int, int]:
        """Return (offset, position) of the last entry at or below `offset`; the start if there is none."""
        index = self.floor(offset - self.base_offset)
        if index < 0:
            return self.base_offset, 0
        relative, position = self.entry(index)
        return self.base_offset + relative, position

    def position_at_or_before(self, position: int) -> int:
        """Return the start of a batch that begins at or before `position`."""
        index = self.floor(position, field=1)
        return 0 if index < 0 else self.entry(index)[1]

    def truncate_to(self, offset: int, position: int) -> None:
        """Drop the entries of batches that end at or above `offset` or begin at or after `position`."""
        keep = min(self.floor(offset - 1 - self.base_offset), self.floor(position - 1, field=1)) + 1
        self.truncate(keep)

    def check(self, log_bytes: int) -> None:
        self.check_size()
        last = self.last()
        if last is not None and not (last[0] >= 0 and 0 < last[1] < log_bytes):
            raise CorruptIndex(f"{self.file.path} ends with {last}, beyond the log of {log_bytes} bytes")
        if last is not None and self.entry(0) > last:
            raise CorruptIndex(f"{self.file.path} is not sorted")
