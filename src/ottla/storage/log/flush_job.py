"""Making a log durable off the event loop.

`PartitionLog.begin_flush` collects what to sync, `FlushJob.run` syncs it in any thread while the event loop
continues to append, and `finish_flush`, on the event loop, moves the recovery point.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.storage.errors import DiskFull, StorageError
from ottla.storage.files import File, Files, SyncHandle
from ottla.storage.index.txn_index import TxnIndex


class FlushJob:
    """The syncs that make a log durable up to `end_offset`."""

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
        "txn_indexes",
        "txn_unsynced_from",
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
        txn_indexes: list[TxnIndex],
        txn_unsynced_from: int | None,
    ) -> None:
        self._files = files
        self.end_offset = end_offset
        self.generation = generation
        self.names_version = names_version
        self.epochs_version = epochs_version
        self.txn_indexes = txn_indexes
        self.txn_unsynced_from = txn_unsynced_from
        self._handles = handles
        self._directories = directories
        self._epochs = epochs
        self.error: StorageError | None = None

    def also(self, files: Iterable[File]) -> None:
        """Add files to be synced. If that fails, the job is over."""
        try:
            for file in files:
                self._handles.append(file.sync_handle())
                file.close()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release what has not been synced."""
        while self._handles:
            self._handles.pop().close()

    def run(self) -> None:
        """Sync everything, blocking. Does not raise: `error` is set on failure."""
        try:
            while self._handles:
                self._handles.pop().sync()
            self._write_epochs()
            for directory in self._directories:
                self._files.sync_dir(directory)
        except StorageError as error:
            self.error = error
        finally:
            self.close()

    def _write_epochs(self) -> None:
        if self._epochs is not None:
            try:
                self._files.write_atomic(*self._epochs)
            except DiskFull:
                self.epochs_version = -1  # batch headers contain them, too, and the next flush retries
