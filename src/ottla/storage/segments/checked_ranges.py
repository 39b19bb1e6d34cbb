"""The ranges of a segment whose checksums were verified since the process started."""

from __future__ import annotations

from bisect import bisect_right


class CheckedRanges:
    """Disjoint, sorted, merged ranges [start, end)."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def end_of_range_at(self, position: int) -> int:
        """Return the end of the checked range that contains `position`, or `position` if it is unchecked."""
        index = bisect_right(self._starts, position) - 1
        return max(position, self._ends[index]) if index >= 0 else position

    def add(self, start: int, end: int) -> None:
        if end <= start:
            return
        first = bisect_right(self._starts, start) - 1
        if first < 0 or self._ends[first] < start:
            first += 1
        last = bisect_right(self._starts, end)
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]

    def cut(self, end: int) -> None:
        """Forget everything from `end` on."""
        keep = bisect_right(self._starts, end - 1)
        del self._starts[keep:]
        del self._ends[keep:]
        if self._ends:
            self._ends[-1] = min(self._ends[-1], end)
