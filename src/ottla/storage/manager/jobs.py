"""Work of the log manager that may run in another thread."""

from __future__ import annotations

from ottla.storage import checkpoints
from ottla.storage.errors import StorageError
from ottla.storage.files import Files
from ottla.storage.manager.managed_dir import ManagedDir


class CheckpointJob:
    """The current content of the checkpoint files. `run` writes them and does not raise."""

    __slots__ = ("_files", "_lowered", "_writes", "failures", "without")

    def __init__(self, files: Files, writes: list[tuple[ManagedDir, str, bytes]]) -> None:
        self._files = files
        self._writes = writes
        self._lowered = {log_dir: log_dir.lowered for log_dir, _, _ in writes}
        # The deleted partitions that the new files no longer contain, by directory.
        self.without = {log_dir: list(log_dir.stale) for log_dir, _, _ in writes}
        self.failures: list[tuple[ManagedDir, StorageError]] = []

    def run(self) -> None:
        for log_dir, name, data in self._writes:
            with log_dir.checkpoint_lock:
                outdated = log_dir.lowered != self._lowered[log_dir]
                if name == checkpoints.RECOVERY_POINTS and outdated:
                    continue
                try:
                    self._files.write_atomic(f"{log_dir.path}/{name}", data)
                except StorageError as error:
                    self.failures.append((log_dir, error))


class RemovalJob:
    """Files and directories that are no longer used. `run` removes them and does not raise."""

    __slots__ = ("_files", "_paths", "failures", "log_dir")

    def __init__(self, files: Files, log_dir: ManagedDir, paths: list[str]) -> None:
        self._files = files
        self._paths = paths
        self.log_dir = log_dir
        self.failures: list[StorageError] = []

    def __bool__(self) -> bool:
        return bool(self._paths)

    def run(self) -> None:
        for path in self._paths:
            try:
                if self._files.is_dir(path):
                    self._files.rmtree(path)
                else:
                    self._files.remove(path)
            except StorageError as error:
                self.failures.append(error)
