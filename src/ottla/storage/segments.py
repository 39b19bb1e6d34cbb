"""The segments of a log in order of their base offsets; there is always at least one, the last is active."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from ottla.storage.segment import Segment


class Segments:
    __slots__ = ("_bases", "_list", "active")

    def __init__(self, segments: list[Segment]) -> None:
        assert segments
        self._list = segments
        self._bases = [segment.base_offset for segment in segments]
        assert all(low < high for low, high in zip(self._bases, self._bases[1:], strict=False))
        self.active = segments[-1]

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
        """Index of the segment that would hold `offset`; the first one for anything below."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def end_offset(self, index: int, log_end_offset: int) -> int:
        """The offset at which the segment at `index` gives way to the next."""
        return self._bases[index + 1] if index + 1 < len(self._bases) else log_end_offset

    def add(self, segment: Segment) -> None:
        assert segment.base_offset > self._bases[-1]
        self._list.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def drop_first(self, count: int) -> list[Segment]:
        assert 0 <= count < len(self._list), "the active segment stays"
        dropped = self._list[:count]
        del self._list[:count]
        del self._bases[:count]
        return dropped

    def drop_after(self, index: int) -> list[Segment]:
        """Take out every segment behind the one at `index`."""
        dropped = self._list[index + 1 :]
        del self._list[index + 1 :]
        del self._bases[index + 1 :]
        self.active = self._list[-1]
        return dropped

    def replace(self, old: list[Segment], segment: Segment) -> None:
        """Put one segment in the place of neighbours, see `holds`."""
        first = self._bases.index(old[0].base_offset)
        assert segment.base_offset == old[0].base_offset
        assert old[-1] is not self.active, "the active segment stays"
        self._list[first : first + len(old)] = [segment]
        self._bases[first : first + len(old)] = [segment.base_offset]

    def holds(self, run: list[Segment]) -> bool:
        """Are these segments, the very same, still here side by side?"""
        first = self.floor(run[0].base_offset)
        here = self._list[first : first + len(run)]
        return len(here) == len(run) and all(a is b for a, b in zip(here, run, strict=True))

    def replace_all(self, segment: Segment) -> list[Segment]:
        dropped = self._list
        self._list = [segment]
        self._bases = [segment.base_offset]
        self.active = segment
        return dropped
