"""The segments of a log in offset order. There is always at least one; the last one is active."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from ottla.storage.files import Files
from ottla.storage.segments.segment import Segment
from ottla.storage.segments.swap import CleanedGroup, swap_in


class SegmentList:
    __slots__ = ("_bases", "_files", "_list", "active", "directory")

    def __init__(self, files: Files, directory: str, segments: list[Segment]) -> None:
        assert segments
        self._files = files
        self.directory = directory
        self._list = segments
        self._bases = [segment.base_offset for segment in segments]
        assert all(low < high for low, high in zip(self._bases, self._bases[1:], strict=False))
        self.active = segments[-1]

    # -- lookup

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._list)

    def __getitem__(self, index: int) -> Segment:
        return self._list[index]

    @property
    def first(self) -> Segment:
        return self._list[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._list)

    def floor(self, offset: int) -> int:
        """The index of the segment that would contain `offset`; 0 for offsets before the first segment."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def end_offset(self, index: int, log_end_offset: int) -> int:
        """The offset at which the segment after the one at `index` begins."""
        return self._bases[index + 1] if index + 1 < len(self._bases) else log_end_offset

    def contains(self, run: list[Segment]) -> bool:
        """Whether exactly these segment objects are in the list, next to each other."""
        first = self.floor(run[0].base_offset)
        here = self._list[first : first + len(run)]
        return len(here) == len(run) and all(a is b for a, b in zip(here, run, strict=True))

    # -- changes at the end

    def roll(self, base_offset: int, now_ms: int) -> Segment:
        """Create the next active segment."""
        assert base_offset > self._bases[-1]
        segment = Segment.create(self._files, self.directory, base_offset, now_ms)
        self._list.append(segment)
        self._bases.append(base_offset)
        self.active = segment
        return segment

    def drop_after(self, index: int) -> list[Segment]:
        """Take every segment after the one at `index` out of the list, and return them."""
        dropped = self._list[index + 1 :]
        del self._list[index + 1 :]
        del self._bases[index + 1 :]
        self.active = self._list[-1]
        return dropped

    def truncate_to(self, offset: int) -> int:
        """Remove every batch that reaches `offset` or beyond; return the new log end offset."""
        index = self.floor(offset)
        segment = self._list[index]
        found = segment.find(offset)
        segment.load_indexes()  # their rebuilding may fail: before anything is removed
        for later in self.drop_after(index):
            later.remove()
        if found is not None:
            segment.truncate_at(found[0], offset)
        # Without these syncs a crash could bring the old batches back after newer ones, or their indexes.
        for file in (segment.log, *segment.index_files()):
            file.sync()
        self._files.sync_dir(self.directory)
        return max(segment.base_offset, segment.next_offset())

    def restart_at(self, offset: int, now_ms: int) -> None:
        """Remove all segments, and create an empty one that begins at `offset`."""
        # Created first: if that fails on a full disk, the log is unchanged.
        segment = None
        if offset not in self._bases:
            segment = Segment.create(self._files, self.directory, offset, now_ms)
        for old in self._list:
            old.remove()
        if segment is None:
            segment = Segment.create(self._files, self.directory, offset, now_ms)
        self._list = [segment]
        self._bases = [offset]
        self.active = segment

    # -- changes elsewhere

    def delete_first(self, count: int) -> list[str]:
        """Take the oldest segments out of the list; return their files, renamed, for a later removal."""
        assert 0 <= count < len(self._list), "the active segment must stay"
        dropped = self._list[:count]
        del self._list[:count]
        del self._bases[:count]
        return [path for segment in dropped for path in segment.rename_deleted()]

    def replace(self, group: CleanedGroup, now_ms: int, mark: str) -> list[str]:
        """Replace neighbouring segments by a cleaned one; return the old files for a later removal.

        `mark` makes the names of the old files unique.
        """
        old = group.old
        assert old[-1] is not self.active, "the active segment must stay"
        segment, replaced = swap_in(self._files, self.directory, group, now_ms, mark)
        first = self._bases.index(group.base_offset)
        self._list[first : first + len(old)] = [segment]
        self._bases[first : first + len(old)] = [segment.base_offset]
        return replaced

    def close(self) -> None:
        for segment in self._list:
            segment.close()

    def moved(self, directory: str) -> None:
        """Update the paths after the directory was renamed."""
        self.directory = directory
        for segment in self._list:
            segment.moved(directory)
