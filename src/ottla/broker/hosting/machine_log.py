"""The interface of a log that a machine is hosted on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Producer = tuple[int, int]  # id and epoch


class NotLeader(Exception):
    """This node does not lead the log, or not in that epoch any more."""


class MachineLog(Protocol):
    """The replicated log of one machine, as its leader sees it."""

    @property
    def end_offset(self) -> int: ...

    @property
    def committed_offset(self) -> int:
        """Everything below it is committed, and visible to a client that gets a reply."""

    def append(self, records: list[Any], producer: Producer | None) -> None:
        """Append all records or none. Raises NotLeader, StorageError and RecordsError."""

    def when_committed(
        self, offset: int, committed: Callable[[], None], failed: Callable[[BaseException], None]
    ) -> None:
        """Call one of the two when it is known whether everything below `offset` is committed."""
