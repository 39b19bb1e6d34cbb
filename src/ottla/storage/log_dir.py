"""The state of one log directory, shared by its partitions: one I/O error takes all of them offline."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from ottla.storage.errors import CorruptLog, DirectoryStalled, DiskFull, StorageError, StorageOffline
from ottla.storage.logger import logger


class LogDir:
    """`error` is None while the directory is online. After a failure nothing in it is accessed again; while
    it is stalled, nothing that could block the event loop."""

    __slots__ = ("error", "on_offline", "on_recovery_point_lowered", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.error: StorageError | None = None
        self.on_offline: Callable[[LogDir], None] | None = None
        self.on_recovery_point_lowered: Callable[[LogDir], None] | None = None

    def fail(self, error: StorageError) -> StorageOffline:
        """Take the directory offline; return the exception to raise."""
        if self.error is None or self.is_stalled:
            self.error = error
            logger.error("log directory %s is offline: %s", self.path, error)
            if self.on_offline is not None:
                self.on_offline(self)
        return StorageOffline(self.path, f"log directory is offline: {self.error}")

    @property
    def is_stalled(self) -> bool:
        """Offline only until the disk answers again."""
        return isinstance(self.error, DirectoryStalled)

    def stall(self, reason: str) -> None:
        """Take the directory offline until `resume`: its disk does not answer."""
        if self.error is None:
            self.error = DirectoryStalled(self.path, reason)
            if self.on_offline is not None:
                self.on_offline(self)

    def resume(self) -> None:
        """The disk answers again."""
        if self.is_stalled:
            self.error = None

    def offline_error(self) -> StorageOffline:
        return StorageOffline(self.path, f"log directory is offline: {self.error}")


class offline_on_error:  # noqa: N801 - a context manager
    """Context manager that takes the log directory offline on a StorageError other than DiskFull and
    CorruptLog."""

    __slots__ = ("_log_dir",)

    def __init__(self, log_dir: LogDir) -> None:
        self._log_dir = log_dir

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, StorageError) and not isinstance(error, (DiskFull, CorruptLog, StorageOffline)):
            raise self._log_dir.fail(error) from error
