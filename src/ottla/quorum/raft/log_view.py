"""The Raft machine's view of the metadata log of its node."""

from __future__ import annotations

from typing import Protocol

from ottla.quorum.snapshot import SnapshotId


class LogView(Protocol):
    """Read at each step; effects change the log between steps."""

    @property
    def start_offset(self) -> int:
        """The first offset in the log; the end of its earliest snapshot, or 0."""

    @property
    def end_offset(self) -> int:
        """The offset after the last written record."""

    @property
    def flushed_offset(self) -> int:
        """The offset after the last flushed record; never above `end_offset`."""

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or of the snapshot if the log is empty after it, or 0."""

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch <= `epoch` with records in the log, and the offset at which it ends.

        If `epoch` is before all of them, the result is `epoch` and the start of the log.
        """

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        """The snapshot at the start of the log, if the log does not start at 0."""

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        """The newest complete snapshot."""

    def snapshot_bytes(self, snapshot_id: SnapshotId) -> int | None:
        """The size of a snapshot file; None if the snapshot does not exist."""
