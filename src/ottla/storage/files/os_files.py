"""`Files` on the operating system, with a bounded number of open descriptors.

Descriptors are cached and opened again on demand. When the process runs out of them, the least recently used
ones of the cache are closed and the operation is retried.

A file belongs to one thread at a time, but several threads may use files of one `OsFiles`. A file that is in
use is marked as busy, and no other thread closes its descriptor:

    user of the file                      thread that needs a descriptor (holds the lock)
    busy = True                           fd, file._fd = file._fd, -1
    fd = file._fd (if -1: lock, open)     if file.busy: put it back, try the next file
    system call                           close(fd)
    busy = False
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
from collections.abc import Callable, Sequence
from threading import RLock
from types import TracebackType
from typing import TypeVar

from ottla.storage.errors import DirectoryInUse, DiskFull, OutOfDescriptors, StorageError
from ottla.storage.files.base import Bytes, File, Files, Lock, SyncHandle

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
_PWRITE_BYTES_MAX = 1 << 30
OTHER_THREAD_OPEN_MAX = 16  # a background thread works on few files at a time

Result = TypeVar("Result")


def storage_error(path: str, error: OSError) -> StorageError:
    kind: type[StorageError] = StorageError
    if error.errno in _NO_SPACE:
        kind = DiskFull
    elif error.errno in _NO_DESCRIPTOR:
        kind = OutOfDescriptors
    return kind(path, error.strerror or error)


class _StorageErrors:
    """Context manager that converts an OSError into a StorageError for `path`."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            raise storage_error(self._path, error) from error


class OsSyncHandle(SyncHandle):
    __slots__ = ("_fd", "_path")

    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self._fd = fd

    def sync(self) -> None:
        try:
            with _StorageErrors(self._path):
                os.fsync(self._fd)
        finally:
            self.close()

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class OsFile(File):
    """A file whose descriptor the cache may close between any two calls. `busy`: during a call."""

    __slots__ = ("_fd", "_files", "_size", "busy", "used")

    def __init__(self, files: OsFiles, path: str, size: int = -1) -> None:
        self.path = path
        self._files = files
        self._fd = -1
        self._size = size
        self.busy = False
        self.used = False

    @property
    def size(self) -> int:
        if self._size < 0:
            self._size = max(0, self._files.size(self.path))
        return self._size

    def _open(self, flags: int) -> int:
        """Return the descriptor, opened if necessary; the file is busy."""
        with self._files.lock_of_cache:
            if self._fd < 0:
                self._fd = self._files.with_descriptor(
                    self.path, lambda: os.open(self.path, flags | os.O_CLOEXEC, 0o644)
                )
                self._files.opened(self)
            return self._fd

    def append(self, data: Bytes) -> None:
        size = self._size
        if size < 0:
            size = self.size
        self.busy = self.used = True
        try:
            fd = self._fd
            if fd < 0:
                fd = self._open(os.O_RDWR | os.O_CREAT)
            total = len(data)
            try:
                written = os.pwrite(fd, data, size)
                if written < total:
                    self._write_rest(fd, memoryview(data), size, written)
            except OSError as error:
                self._undo_append(fd, size)
                raise storage_error(self.path, error) from error
        finally:
            self.busy = False
        self._size = size + total

    def append_many(self, pieces: Sequence[Bytes]) -> None:
        size = self.size
        self.busy = self.used = True
        try:
            fd = self._fd
            if fd < 0:
                fd = self._open(os.O_RDWR | os.O_CREAT)
            total = sum(map(len, pieces))
            try:
                written = os.pwritev(fd, pieces, size)
                if written < total:
                    self._write_rest(fd, memoryview(b"".join(pieces)), size, written)
            except OSError as error:
                self._undo_append(fd, size)
                raise storage_error(self.path, error) from error
        finally:
            self.busy = False
        self._size = size + total

    def _undo_append(self, fd: int, size: int) -> None:
        """Truncate a partial write, so that the next append starts at a batch boundary."""
        with _StorageErrors(self.path):
            os.ftruncate(fd, size)

    def _write_rest(self, fd: int, data: memoryview, size: int, written: int) -> None:
        while written < len(data):
            count = os.pwrite(fd, data[written : written + _PWRITE_BYTES_MAX], size + written)
            if count <= 0:
                raise OSError(errno.ENOSPC, "short write")
            written += count

    def read(self, position: int, nbytes: int) -> bytes:
        self.busy = self.used = True
        try:
            fd = self._fd
            if fd < 0:
                fd = self._open(os.O_RDWR)
            data = os.pread(fd, nbytes, position)
            return data if len(data) == nbytes else self._read_rest(fd, position, nbytes, data)
        except OSError as error:
            raise storage_error(self.path, error) from error
        finally:
            self.busy = False

    def _read_rest(self, fd: int, position: int, nbytes: int, data: bytes) -> bytes:
        """Continue a short read: before a bad sector it does not end at the end of the file."""
        while data and len(data) < nbytes:
            more = os.pread(fd, nbytes - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def sendfile(self, to_fileno: int, position: int, nbytes: int) -> int:
        self.busy = self.used = True
        try:
            fd = self._fd
            if fd < 0:
                fd = self._open(os.O_RDWR)
            return os.sendfile(to_fileno, fd, position, nbytes)
        finally:
            self.busy = False

    def truncate(self, nbytes: int) -> None:
        self._call(os.O_RDWR | os.O_CREAT, lambda fd: os.ftruncate(fd, nbytes))
        self._size = nbytes

    def sync(self) -> None:
        self._call(os.O_RDWR, os.fsync)

    def sync_handle(self) -> SyncHandle:
        return self._call(
            os.O_RDWR,
            lambda fd: OsSyncHandle(self.path, self._files.with_descriptor(self.path, lambda: os.dup(fd))),
        )

    def _call(self, flags: int, work: Callable[[int], Result]) -> Result:
        """Call `work` with the descriptor."""
        self.busy = True
        try:
            with _StorageErrors(self.path):
                return work(self._fd if self._fd >= 0 else self._open(flags))
        finally:
            self.busy = False

    def rename(self, new_path: str) -> None:
        self._files.rename(self.path, new_path)
        self.path = new_path

    def moved(self, new_path: str) -> None:
        self.path = new_path

    def close(self) -> None:
        with self._files.lock_of_cache:
            if self._fd >= 0 and self.release_descriptor():
                self._files.closed(self)

    def release_descriptor(self) -> bool:
        """Close the descriptor, unless another thread uses it now. Called with the lock of the cache."""
        fd, self._fd = self._fd, -1
        if self.busy:
            self._fd = fd
            return False
        os.close(fd)
        return True


class OsLock(Lock):
    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class OsFiles(Files):
    """The real file system, with at most `open_max` open descriptors."""

    __slots__ = ("_open", "lock_of_cache", "open_max")

    def __init__(self, open_max: int | None = None) -> None:
        if open_max is None:
            # The other half is left for sockets.
            open_max = max(16, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        self.open_max = open_max
        self.lock_of_cache = RLock()
        self._open: dict[OsFile, None] = {}

    @property
    def open_count(self) -> int:
        return len(self._open)

    def for_other_thread(self) -> Files:
        return OsFiles(OTHER_THREAD_OPEN_MAX)

    def opened(self, file: OsFile) -> None:
        """Add a descriptor to the cache. Called with the lock of the cache."""
        self._open[file] = None
        for _ in range(2 * len(self._open)):  # each file gets one second chance
            if len(self._open) <= self.open_max:
                break
            oldest = next(iter(self._open))
            del self._open[oldest]
            if oldest.used or not oldest.release_descriptor():
                # Second chance: it was used since the last sweep, so move it to the end of the queue.
                oldest.used = False
                self._open[oldest] = None

    def closed(self, file: OsFile) -> None:
        self._open.pop(file, None)

    def with_descriptor(self, path: str, work: Callable[[], Result]) -> Result:
        """Call `work`, which needs a free descriptor; while there is none, close one of the cache."""
        while True:
            try:
                return work()
            except OSError as error:
                if error.errno not in _NO_DESCRIPTOR or not self._release_oldest():
                    raise storage_error(path, error) from error

    def _release_oldest(self) -> bool:
        """Close the least recently used descriptor; False if there is none that can be closed."""
        with self.lock_of_cache:
            for file in self._open:
                if file.release_descriptor():
                    del self._open[file]
                    return True
        return False

    def open(self, path: str) -> File:
        return OsFile(self, path)

    def create(self, path: str) -> File:
        os.close(self._descriptor(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
        return OsFile(self, path, size=0)

    def _descriptor(self, path: str, flags: int) -> int:
        return self.with_descriptor(path, lambda: os.open(path, flags | os.O_CLOEXEC, 0o644))

    def exists(self, path: str) -> bool:
        with _StorageErrors(path):
            return os.path.exists(path)

    def size(self, path: str) -> int:
        try:
            return os.stat(path).st_size
        except FileNotFoundError:
            return -1
        except OSError as error:
            raise storage_error(path, error) from error

    def modified_ms(self, path: str) -> int:
        with _StorageErrors(path):
            return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        with _StorageErrors(path):
            os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def listdir(self, path: str) -> list[str]:
        return self.with_descriptor(path, lambda: os.listdir(path))

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def mkdir(self, path: str) -> None:
        with _StorageErrors(path):
            os.makedirs(path, exist_ok=True)

    def rename(self, path: str, new_path: str) -> None:
        with _StorageErrors(path):
            os.rename(path, new_path)

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_error(path, error) from error

    def rmtree(self, path: str) -> None:
        with _StorageErrors(path):
            if os.path.lexists(path):
                import shutil

                self.with_descriptor(path, lambda: shutil.rmtree(path))

    def read_bytes(self, path: str) -> bytes | None:
        try:
            fd = self._descriptor(path, os.O_RDONLY)
        except StorageError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise
        try:
            with _StorageErrors(path):
                return _read_all(lambda nbytes: os.read(fd, nbytes))
        finally:
            os.close(fd)

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        temporary = path + ".tmp"
        fd = self._descriptor(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with _StorageErrors(path):
            try:
                try:
                    view = memoryview(data)
                    while view:
                        view = view[os.write(fd, view) :]
                    if durable:
                        os.fsync(fd)
                finally:
                    os.close(fd)
                os.rename(temporary, path)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)  # on a full disk it would keep space
                raise
        if durable:
            self.sync_dir(os.path.dirname(path) or ".")

    def sync_dir(self, path: str) -> None:
        fd = self._descriptor(path, os.O_RDONLY | os.O_DIRECTORY)
        with _StorageErrors(path):
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def free_bytes(self, path: str) -> int:
        with _StorageErrors(path):
            status = os.statvfs(path)
            return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        with _StorageErrors(path):
            status = os.statvfs(path)
            return status.f_blocks * status.f_frsize

    def sync_filesystem(self, path: str) -> None:
        import ctypes

        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:
            os.sync()
            return
        fd = self._descriptor(path, os.O_RDONLY | os.O_DIRECTORY)
        with _StorageErrors(path):
            try:
                if syncfs(fd) != 0:
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number))
            finally:
                os.close(fd)

    def lock(self, path: str) -> Lock:
        fd = self._descriptor(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                reason = "another process has locked the log directory: stop it, or set another log.dirs"
                raise DirectoryInUse(os.path.dirname(path), reason) from None
            raise storage_error(path, error) from error
        return OsLock(fd)


def _read_all(read: Callable[[int], bytes]) -> bytes:
    first = read(65536)
    if len(first) < 65536:
        return first
    parts = [first]
    while part := read(1 << 20):
        parts.append(part)
    return b"".join(parts)
