"""Where data files are written: a local directory, or an object store through deltalake."""

from __future__ import annotations

import contextlib
import os
from typing import Any, BinaryIO, Protocol

from pyspark_ottla_lake.options import LakeOptions


class Storage(Protocol):
    """Paths are relative to the table."""

    def create(self, path: str) -> Any: ...

    def finish(self, file: Any, path: str) -> int:
        """Close a file durably. Returns its size."""

    def remove(self, path: str) -> None: ...


class LocalStorage:
    """A directory that the driver, executors and readers share."""

    def __init__(self, root: str) -> None:
        self._root = root

    def create(self, path: str) -> BinaryIO:
        full = os.path.join(self._root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        return open(full, "xb")

    def finish(self, file: BinaryIO, path: str) -> int:
        # Sync before the commit: the log must never name a file that a power failure can truncate.
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
        file.close()
        return size

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(self._root, path))


class ObjectStorage:
    """Any store that deltalake supports by URL. A file appears when it is closed, never partially."""

    def __init__(self, root: str, options: dict[str, str]) -> None:
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import PyFileSystem

        self._files = PyFileSystem(DeltaStorageHandler(root, options or None))

    def create(self, path: str) -> Any:
        return self._files.open_output_stream(path)

    def finish(self, file: Any, path: str) -> int:
        size = int(file.tell())
        file.close()
        return size

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.delete_file(path)


def storage_of(options: LakeOptions) -> Storage:
    return LocalStorage(options.path) if options.is_local else ObjectStorage(options.path, options.storage)
