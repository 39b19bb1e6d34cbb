"""Start offsets of leader epochs: `leader-epoch-checkpoint` and its copy in memory.

The file is written when the log is flushed, rolled or closed, not at each change: entries lost in a crash are
recovered from the batch headers after the recovery point.
"""

from __future__ import annotations

from bisect import bisect_right

from ottla.storage.checkpoints import CorruptCheckpoint, parse_lines, render_lines
from ottla.storage.files import Files

FILE_NAME = "leader-epoch-checkpoint"
NO_EPOCH = -1


class LeaderEpochs:
    """Entries (epoch, start offset), both strictly increasing."""

    __slots__ = ("_epochs", "_starts", "saved_version", "version")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        # Counts changes; a save records which of them it contains.
        self.version = 0
        self.saved_version = 0

    @property
    def dirty(self) -> bool:
        return self.version != self.saved_version

    @property
    def latest_epoch(self) -> int:
        return self._epochs[-1] if self._epochs else NO_EPOCH

    @property
    def first_start_offset(self) -> int:
        """The start offset of the oldest known epoch, or -1."""
        return self._starts[0] if self._starts else -1

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that `epoch` begins at `start_offset`, and remove entries that contradict it."""
        assert epoch >= 0 and start_offset >= 0, (epoch, start_offset)
        if self._epochs and self._epochs[-1] == epoch and self._starts[-1] <= start_offset:
            return
        while self._epochs and (self._epochs[-1] > epoch or self._starts[-1] >= start_offset):
            self._epochs.pop()
            self._starts.pop()
        self.version += 1
        if self._epochs and self._epochs[-1] == epoch:
            return  # only a later epoch without records was removed
        self._epochs.append(epoch)
        self._starts.append(start_offset)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the largest known epoch <= `epoch`; (-1, -1) if there is none."""
        if epoch == NO_EPOCH or not self._epochs:
            return NO_EPOCH, -1
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return NO_EPOCH, -1
        end = self._starts[higher]
        return (self._epochs[higher - 1], end) if higher else (epoch, end)

    def epoch_for_offset(self, offset: int) -> int:
        """Return the epoch of the batch at `offset`, or -1."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else NO_EPOCH

    def truncate_from_end(self, offset: int) -> None:
        """Remove what begins at or above the new log end offset."""
        while self._starts and self._starts[-1] >= offset:
            self._starts.pop()
            self._epochs.pop()
            self.version += 1

    def truncate_from_start(self, offset: int) -> None:
        """Remove what ends at or below the new log start offset."""
        index = bisect_right(self._starts, offset) - 1
        if index < 0 or (index == 0 and self._starts[0] == offset):
            return
        del self._starts[:index]
        del self._epochs[:index]
        self._starts[0] = offset
        self.version += 1

    def clear(self) -> None:
        self._epochs.clear()
        self._starts.clear()
        self.version += 1

    def load(self, files: Files, directory: str) -> bool:
        """Read the checkpoint; return False if it is invalid and has to be rebuilt from the log."""
        data = files.read_bytes(f"{directory}/{FILE_NAME}")
        if data is None:
            return True
        try:
            entries = [(int(epoch), int(start)) for epoch, start in parse_lines(data, fields=2)]
        except (CorruptCheckpoint, ValueError):
            return False
        for epoch, start in entries:
            self.assign(epoch, start)
        self.saved_version = self.version
        return self.entries() == entries

    def render(self) -> bytes:
        return render_lines([f"{epoch} {start}" for epoch, start in self.entries()])

    def save(self, files: Files, directory: str) -> None:
        files.write_atomic(f"{directory}/{FILE_NAME}", self.render(), durable=False)
        self.saved_version = self.version
