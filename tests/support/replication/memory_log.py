"""A partition log in memory."""

from __future__ import annotations

from typing import Any

from ottla.storage.log.leader_epochs import LeaderEpochs


class MemoryLog:
    """Records as (epoch, value); unflushed ones are lost in a power failure."""

    def __init__(self, records: list[tuple[int, Any]] | None = None, start: int = 0) -> None:
        self.log_start_offset = start
        self.records: list[tuple[int, Any]] = []
        self.flushed_end = start
        self.leader_epochs = LeaderEpochs()
        self.append(records or [])

    @property
    def log_end_offset(self) -> int:
        return self.log_start_offset + len(self.records)

    def append(self, records: list[tuple[int, Any]]) -> None:
        for epoch, value in records:
            self.leader_epochs.assign(epoch, self.log_end_offset)
            self.records.append((epoch, value))

    def read(self, offset: int, count: int) -> list[tuple[int, Any]]:
        first = offset - self.log_start_offset
        return self.records[first : first + count]

    def value_at(self, offset: int) -> Any:
        return self.records[offset - self.log_start_offset][1]

    def truncate_to(self, offset: int) -> None:
        assert offset >= self.log_start_offset
        del self.records[offset - self.log_start_offset :]
        self.flushed_end = min(self.flushed_end, self.log_end_offset)
        if offset <= self.log_end_offset:
            self.leader_epochs.truncate_from_end(offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self.records.clear()
        self.log_start_offset = self.flushed_end = offset
        self.leader_epochs.clear()

    def advance_log_start(self, offset: int) -> None:
        assert self.log_start_offset <= offset <= self.log_end_offset
        del self.records[: offset - self.log_start_offset]
        self.log_start_offset = offset
        self.flushed_end = max(self.flushed_end, offset)
        self.leader_epochs.truncate_from_start(offset)

    def lose_unflushed(self) -> None:
        self.truncate_to(max(self.log_start_offset, self.flushed_end))
