"""Base of the sparse indexes: sorted entries of fixed size, the older ones in the file, the newest in memory.

Unwritten entries are in `_tail`, packed as on disk. Only one small block of the file is cached, so an unused
index costs almost nothing, and a lookup is a binary search of a few reads.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from struct import Struct
from typing import ClassVar

from ottla.storage.files import Files

_BLOCK_ENTRIES = 128
_TAIL_BYTES_MAX = 32768


class CorruptIndex(Exception):
    """The index does not match its segment and has to be rebuilt from the log."""


class IndexFile:
    """Entries sorted by their first field; the subclasses define their meaning."""

    ENTRY: ClassVar[Struct]

    __slots__ = ("_block", "_block_at", "_stored", "_tail", "base_offset", "file", "was_cut")

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        self.file = files.open(path)
        self.base_offset = base_offset
        self._stored = -1
        self._tail = bytearray()
        self._block = b""
        self._block_at = -1
        self.was_cut = False  # a power loss may bring back what was removed, until the file is synced

    def __len__(self) -> int:
        stored = self._stored
        if stored < 0:
            stored = self._count_stored()
        return stored + len(self._tail) // self.ENTRY.size

    def _count_stored(self) -> int:
        """Count the entries in the file, without the trailing zeros of an index that another program
        preallocated."""
        count = self.file.size // self.ENTRY.size
        self._stored = count
        if count and self._is_unused(count - 1):
            self._stored = bisect_left(range(count), True, key=self._is_unused)
        return self._stored

    def _is_unused(self, index: int) -> bool:
        return not any(self._packed(index))

    def _packed(self, index: int) -> bytes | bytearray:
        """Return the bytes of an entry in the file."""
        width = self.ENTRY.size
        block_at = index // _BLOCK_ENTRIES
        if block_at != self._block_at:
            self._block = self.file.read(block_at * _BLOCK_ENTRIES * width, _BLOCK_ENTRIES * width)
            self._block_at = block_at
        start = index % _BLOCK_ENTRIES * width
        packed = self._block[start : start + width]
        if len(packed) < width:
            raise CorruptIndex(f"{self.file.path} ends before entry {index}")
        return packed

    def entry(self, index: int) -> tuple[int, int]:
        stored = len(self) - len(self._tail) // self.ENTRY.size
        if index >= stored:
            first, second = self.ENTRY.unpack_from(self._tail, (index - stored) * self.ENTRY.size)
        else:
            first, second = self.ENTRY.unpack(self._packed(index))
        return first, second

    def _first(self, index: int) -> int:
        return self.entry(index)[0]

    def _second(self, index: int) -> int:
        return self.entry(index)[1]

    def floor(self, key: int, field: int = 0) -> int:
        """Return the number of the last entry whose field is <= key, or -1."""
        count = len(self)
        if not count:
            return -1
        return bisect_right(range(count), key, key=self._second if field else self._first) - 1

    def last(self) -> tuple[int, int] | None:
        count = len(self)
        return self.entry(count - 1) if count else None

    def _push(self, first: int, second: int) -> None:
        self._tail += self.ENTRY.pack(first, second)

    @property
    def wants_write(self) -> bool:
        """Whether enough entries are in memory to write them to the file."""
        return len(self._tail) >= _TAIL_BYTES_MAX

    def write_out(self) -> None:
        """Write the entries in memory to the file, which has its exact size on return."""
        stored = len(self) - len(self._tail) // self.ENTRY.size
        size = stored * self.ENTRY.size
        if self.file.size != size:
            self.file.truncate(size)
            self.was_cut = True
        self.file.append(self._tail)
        self._stored = stored + len(self._tail) // self.ENTRY.size
        self._tail.clear()
        self._block_at = -1

    def truncate(self, count: int) -> None:
        """Keep the first `count` entries."""
        stored = len(self) - len(self._tail) // self.ENTRY.size
        if count < stored:
            self.file.truncate(count * self.ENTRY.size)
            self.was_cut = True
            self._stored = count
            self._block_at = -1
            self._tail.clear()
        else:
            del self._tail[(count - stored) * self.ENTRY.size :]

    def forget_stored(self) -> None:
        """Treat the file as empty, whatever it contains."""
        self._stored = 0

    def check_size(self) -> None:
        if self.file.size % self.ENTRY.size:
            raise CorruptIndex(
                f"{self.file.path} has {self.file.size} bytes, not a multiple of the entry size"
            )
