"""Files of deleted segments, which are removed after file.delete.delay.ms: a fetch may still be sending
them."""

from __future__ import annotations

from collections.abc import Iterable


class DelayedRemovals:
    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[int, str]] = []

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, due_ms: int, paths: Iterable[str]) -> None:
        self._entries += [(due_ms, path) for path in paths]

    def take_due(self, now_ms: int) -> list[str]:
        """Remove the paths whose delay has passed from the list, and return them."""
        due = [path for due_ms, path in self._entries if due_ms <= now_ms]
        self._entries = [entry for entry in self._entries if entry[0] > now_ms]
        return due

    def paths(self) -> list[str]:
        return [path for _, path in self._entries]
