"""The interface through which storage uses the file system.

`OsFiles` implements it on the operating system; tests use an implementation that loses, tears and corrupts
writes.

A `Files` object and its `File` handles belong to one thread. Another thread may use a `SyncHandle` (fsync
that bypasses the handle cache) and the whole-file operations, which involve no `File`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

Bytes = bytes | bytearray | memoryview


class SyncHandle(ABC):
    """Syncs the content a file had when the handle was created; usable once, from any thread."""

    __slots__ = ()

    @abstractmethod
    def sync(self) -> None:
        """fsync, then release."""

    @abstractmethod
    def close(self) -> None:
        """Release without syncing."""


class File(ABC):
    """An append-only file with random reads. The file is opened on first use."""

    __slots__ = ("path",)

    path: str

    @property
    @abstractmethod
    def size(self) -> int:
        """Size in bytes; 0 if the file does not exist."""

    @abstractmethod
    def append(self, data: Bytes) -> None:
        """Append all of `data`, or leave the file unchanged and raise."""

    def append_many(self, pieces: Sequence[Bytes]) -> None:
        """Append all pieces in order, or leave the file unchanged and raise."""
        self.append(b"".join(pieces))

    @abstractmethod
    def read(self, position: int, nbytes: int) -> bytes:
        """Read up to `nbytes` from `position`; fewer only at the end of the file."""

    @abstractmethod
    def truncate(self, nbytes: int) -> None: ...

    @abstractmethod
    def sync(self) -> None: ...

    @abstractmethod
    def sync_handle(self) -> SyncHandle: ...

    @abstractmethod
    def rename(self, new_path: str) -> None: ...

    @abstractmethod
    def moved(self, new_path: str) -> None:
        """Update the path after a parent directory was renamed."""

    @abstractmethod
    def close(self) -> None:
        """Release the descriptor; the next use reopens the file."""

    @abstractmethod
    def sendfile(self, to_fileno: int, position: int, nbytes: int) -> int:
        """Send up to `nbytes` from `position` to a socket without copying them; return how many were sent.

        Raises OSError, of the socket or of the file, and StorageError if the file cannot be opened.
        """


class Lock(ABC):
    """An exclusive lock on a directory, held until `release`."""

    __slots__ = ()

    @abstractmethod
    def release(self) -> None: ...


class Files(ABC):
    """Operations on paths. Every error is a StorageError that names the path."""

    __slots__ = ()

    @abstractmethod
    def open(self, path: str) -> File: ...

    @abstractmethod
    def create(self, path: str) -> File:
        """Create an empty file, or truncate an existing one."""

    @abstractmethod
    def exists(self, path: str) -> bool: ...

    @abstractmethod
    def size(self, path: str) -> int:
        """Return the size in bytes, or -1 if the file does not exist."""

    @abstractmethod
    def modified_ms(self, path: str) -> int: ...

    @abstractmethod
    def set_modified_ms(self, path: str, modified_ms: int) -> None: ...

    @abstractmethod
    def listdir(self, path: str) -> list[str]: ...

    @abstractmethod
    def is_dir(self, path: str) -> bool: ...

    @abstractmethod
    def mkdir(self, path: str) -> None:
        """Create the directory and its parents, unless they exist."""

    @abstractmethod
    def rename(self, path: str, new_path: str) -> None: ...

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file if it exists."""

    @abstractmethod
    def rmtree(self, path: str) -> None: ...

    @abstractmethod
    def read_bytes(self, path: str) -> bytes | None:
        """Return the content of the file, or None if it does not exist."""

    @abstractmethod
    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Replace the file atomically. With durable=False, only a crash of the process is survived, not a
        power loss."""

    @abstractmethod
    def sync_dir(self, path: str) -> None: ...

    @abstractmethod
    def free_bytes(self, path: str) -> int: ...

    @abstractmethod
    def total_bytes(self, path: str) -> int: ...

    @abstractmethod
    def sync_filesystem(self, path: str) -> None:
        """Sync the whole file system that holds `path`."""

    @abstractmethod
    def lock(self, path: str) -> Lock:
        """Acquire the lock file, or raise DirectoryInUse."""

    def for_other_thread(self) -> Files:
        """Return a `Files` for use in another thread, with its own handles."""
        return self
