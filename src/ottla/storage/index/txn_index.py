"""The transaction index (`.txnindex`): the aborted transactions that ended in a segment.

Entry, 34 bytes big-endian: int16 version 0, int64 producer id, int64 first offset, int64 last offset (of the
abort marker), int64 last stable offset when the marker was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from ottla.storage.errors import DiskFull
from ottla.storage.files import Files
from ottla.storage.index.index_file import CorruptIndex
from ottla.storage.logger import logger

_ENTRY = Struct(">hqqqq")
READ_AT_ONCE = 64


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TxnIndex:
    """A few entries, written immediately; the file exists only if a transaction was aborted.

    `is_unsynced`: entries were written since the last sync. The file must be synced before the recovery point
    passes the markers: recovery recreates entries only after it, and a missing entry is not detected.
    """

    __slots__ = ("_waiting", "base_offset", "file", "is_new", "is_unsynced", "was_cut")

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        self.file = files.open(path)
        self.base_offset = base_offset
        self._waiting: list[AbortedTransaction] = []
        self.is_unsynced = False
        self.is_new = False  # its directory entry may be unsynced, too
        self.was_cut = False

    def __bool__(self) -> bool:
        return bool(self._waiting) or self.file.size > 0

    def append(self, aborted: AbortedTransaction) -> None:
        """Add an entry. The marker is in the log already, so on a full disk the entry stays in memory."""
        self._waiting.append(aborted)
        try:
            self.write_out()
        except DiskFull as error:
            logger.warning("entry of the transaction index stays in memory: %s", error)

    def write_out(self) -> None:
        if self._waiting:
            self.is_new = self.is_new or not self.file.size
            self.is_unsynced = True
            self.file.append(b"".join(_ENTRY.pack(0, *entry) for entry in self._waiting))
            self._waiting.clear()

    def entries(self) -> list[AbortedTransaction]:
        count = self.file.size // _ENTRY.size
        return (self._read(0, count) if count else []) + self._waiting

    def entries_from(self, offset: int) -> Iterator[AbortedTransaction]:
        """Yield the transactions that ended at or above `offset`, in offset order. A binary search finds the
        first, because readers usually need few of many."""
        count = self.file.size // _ENTRY.size
        low, high = 0, count
        # Most readers are at the end of the log, after the last entry.
        if count and self._read(count - 1, 1)[0].last_offset < offset:
            low = count
        while low < high:
            middle = (low + high) // 2
            if self._read(middle, 1)[0].last_offset < offset:
                low = middle + 1
            else:
                high = middle
        while low < count:
            part = self._read(low, min(READ_AT_ONCE, count - low))
            yield from part
            low += len(part)
        for entry in self._waiting:
            if entry.last_offset >= offset:
                yield entry

    def _read(self, first: int, count: int) -> list[AbortedTransaction]:
        found = []
        data = self.file.read(first * _ENTRY.size, count * _ENTRY.size)
        for version, *fields in _ENTRY.iter_unpack(data):
            if version != 0:
                raise CorruptIndex(f"{self.file.path} has an entry of unknown version {version}")
            found.append(AbortedTransaction(*fields))
        return found

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions whose marker is at or above `offset`."""
        self._waiting = [entry for entry in self._waiting if entry.last_offset < offset]
        if self.file.size:
            stored = self.entries()[: self.file.size // _ENTRY.size]
            keep = sum(1 for entry in stored if entry.last_offset < offset)
            if keep * _ENTRY.size != self.file.size:
                self.file.truncate(keep * _ENTRY.size)
                self.was_cut = True

    def clear(self) -> None:
        self._waiting.clear()
        if self.file.size:
            self.file.truncate(0)
            self.was_cut = True

    def check(self) -> None:
        if self.file.size % _ENTRY.size:
            raise CorruptIndex(
                f"{self.file.path} has {self.file.size} bytes, not a multiple of the entry size"
            )
        for entry in self.entries():
            if entry.last_offset < self.base_offset or entry.first_offset > entry.last_offset:
                raise CorruptIndex(f"{self.file.path} has an invalid entry {entry}")
