"""When ongoing transactions time out: a lazy heap with at most one entry for each transactional id.

Most transactions end long before their time. The next one of the same id finds the entry of an earlier one
still there, and moves it when it comes up.
"""

from __future__ import annotations

from heapq import heappop, heappush


class Deadlines:
    __slots__ = ("_heap", "_pushed_ms", "_sequence")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, str]] = []
        self._pushed_ms: dict[str, int] = {}
        self._sequence = 0  # makes the order of equal deadlines that of their coming

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, transactional_id: str, deadline_ms: int) -> None:
        pushed_ms = self._pushed_ms.get(transactional_id)
        if pushed_ms is None or deadline_ms < pushed_ms:
            self._pushed_ms[transactional_id] = deadline_ms
            self._sequence += 1
            heappush(self._heap, (deadline_ms, self._sequence, transactional_id))

    @property
    def next_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> str | None:
        """Return an id to check, or None. If its transaction is not due yet, `set` it again."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            pushed_ms, _, transactional_id = heappop(heap)
            if self._pushed_ms.get(transactional_id) == pushed_ms:
                del self._pushed_ms[transactional_id]
                return transactional_id
        return None
