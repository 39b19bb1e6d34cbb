"""The sparse time index (`.timeindex`): the largest timestamp up to an offset.

Entry, 12 bytes big-endian: int64 timestamp, int32 offset relative to the segment's base. An entry (t, o)
means that no record up to o is later than t. Timestamps strictly increase.
"""

from __future__ import annotations

from struct import Struct

from ottla.storage.index.index_file import CorruptIndex, IndexFile

TIME_ENTRY_BYTES = 12


class TimeIndex(IndexFile):
    ENTRY = Struct(">qi")

    __slots__ = ()

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if the timestamp is a new maximum."""
        last = self.last()
        if timestamp > (last[0] if last else -1):
            self._push(timestamp, offset - self.base_offset)

    def last_entry(self) -> tuple[int, int]:
        """(largest timestamp, offset), or (-1, base offset) if there is none."""
        last = self.last()
        return (-1, self.base_offset) if last is None else (last[0], self.base_offset + last[1])

    def offset_for(self, timestamp: int) -> int:
        """Return an offset before which every record is earlier than `timestamp`."""
        index = self.floor(timestamp)
        return self.base_offset if index < 0 else self.base_offset + self.entry(index)[1]

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        self.truncate(self.floor(offset - 1 - self.base_offset, field=1) + 1)

    def check(self) -> None:
        self.check_size()
        last = self.last()
        if last is None:
            return
        first = self.entry(0)
        if last[1] < 0 or last[0] < first[0] or last[1] < first[1]:
            raise CorruptIndex(f"{self.file.path} is not sorted: from {first} to {last}")
