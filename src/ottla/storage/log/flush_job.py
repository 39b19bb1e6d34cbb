"""Making a log durable off the event loop.

`PartitionLog.begin_flush` notes what there is to sync, `FlushJob.run` does it in any thread while the loop
goes on appending, and `finish_flush`, on the loop again, moves the recovery point.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.storage.errors import DiskFull, StorageError
from ottla.storage.files import File, Files, SyncHandle


class FlushJob:
    """What one log needs to be durable up to `end_offset`."""

    __slots__ = (
        "_directories",
        "_epochs",
        "_files",
        "_handles",
        "end_offset",
        "epochs_version",
        "error",
        "generation",
        "names_version",
    )

    def __init__(
        self,
        files: Files,
        *,
        end_offset: int,
        generation: int,
        handles: list[SyncHandle],
        directories: list[str],
        epochs: tuple[str, bytes] | None,
        names_version: int,
        epochs_version: int,
    ) -> None:
        self._files = files
        self.end_offset = end_offset
        self.generation = generation
        self.names_version = names_version
        self.epochs_version = epochs_version
        self._handles = handles
        self._directories = directories
        self._epochs = epochs
        self.error: StorageError | None = None

    def also(self, files: Iterable[File]) -> None:
        """Sync these too."""
        for file in files:
            self._handles.append(file.sync_handle())
            file.close()

    def run(self) -> None:
        """Blocks until all is on disk. Does not raise: `error` says what failed."""
        try:
            while self._handles:
                self._handles.pop().sync()
            self._write_epochs()
            for directory in self._directories:
                self._files.sync_dir(directory)
        except StorageError as error:
            self.error = error
        finally:
            for handle in self._handles:
                handle.close()

    def _write_epochs(self) -> None:
        if self._epochs is not None:
            try:
                self._files.write_atomic(*self._epochs)
            except DiskFull:
                self.epochs_version = -1  # the batches tell them as well, and the next flush tries again
