"""Where data files are written: a local directory, or an object store through deltalake."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from typing import Any, BinaryIO, Protocol

from pyspark_ottla_lake.options import LakeOptions

LOG = "_delta_log"
_VERSION_DIGITS = 20


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
        # Directories whose entry in their parent is known to be on disk.
        self._durable: set[str] = set()

    def create(self, path: str) -> BinaryIO:
        full = os.path.join(self._root, path)
        directory = os.path.dirname(full)
        if not os.path.isdir(directory):
            self._durable.clear()
            os.makedirs(directory, exist_ok=True)
        return open(full, "xb")

    def finish(self, file: BinaryIO, path: str) -> int:
        # Sync before the commit: the log must never name a file that a power failure can truncate or remove.
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
        file.close()
        sync_directories(os.path.dirname(os.path.join(self._root, path)), self._durable)
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


def sync_directories(directory: str, durable: set[str]) -> None:
    """Sync a directory, and those above it up to the mount point unless they are in `durable`.

    Another task may have created a directory and not synced its parent yet, so directories that existed
    before are synced as well.
    """
    _sync(directory)
    while directory not in durable and not os.path.ismount(directory):
        durable.add(directory)
        directory = os.path.dirname(directory)
        # A directory that this user cannot read was created by another one, before the table.
        with contextlib.suppress(PermissionError):
            _sync(directory)


def sync_log(root: str) -> None:
    """Sync what is needed to read a local table: the last checkpoint, and the commits since then.

    deltalake does not sync what it writes. Commits of other writers are synced too: without one of them, the
    later ones are unreadable.
    """
    directory = os.path.join(root, LOG)
    first = f"{_checkpoint_version(directory):0{_VERSION_DIGITS}}"
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        # Names start with the version, or with an underscore, which sorts after digits.
        # A checkpoint in progress or a cleanup of the log may remove a file meanwhile.
        if name >= first and os.path.isfile(path):
            with contextlib.suppress(FileNotFoundError):
                _sync(path)
    sync_directories(directory, set())


def _checkpoint_version(directory: str) -> int:
    try:
        with open(os.path.join(directory, "_last_checkpoint"), "rb") as file:
            return int(json.load(file)["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems have no sync of directories.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not os.path.isdir(path):
            raise
    finally:
        os.close(descriptor)
