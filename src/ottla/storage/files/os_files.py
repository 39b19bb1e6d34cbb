"""`Files` on the operating system, with a bounded number of open descriptors."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
from collections.abc import Callable, Sequence
from types import TracebackType

from ottla.storage.errors import DirectoryInUse, DiskFull, StorageError
from ottla.storage.files.base import Bytes, File, Files, Lock, SyncHandle

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_PWRITE_BYTES_MAX = 1 << 30
OTHER_THREAD_OPEN_MAX = 16  # a background thread works on few files at a time


def storage_error(path: str, error: OSError) -> StorageError:
    kind = DiskFull if error.errno in _NO_SPACE else StorageError
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
    """A file whose descriptor the cache may close between any two calls."""

    __slots__ = ("_fd", "_files", "_size", "used")

    def __init__(self, files: OsFiles, path: str, size: int = -1) -> None:
        self.path = path
        self._files = files
        self._fd = -1
        self._size = size
        self.used = False

    @property
    def size(self) -> int:
        if self._size < 0:
            self._size = max(0, self._files.size(self.path))
        return self._size

    def _open(self, flags: int) -> int:
        with _StorageErrors(self.path):
            self._fd = os.open(self.path, flags | os.O_CLOEXEC, 0o644)
        self._files.opened(self)
        return self._fd

    def append(self, data: Bytes) -> None:
        fd = self._fd
        if fd < 0:
            fd = self._open(os.O_RDWR | os.O_CREAT)
        size = self._size
        if size < 0:
            size = self.size
        self.used = True
        total = len(data)
        try:
            written = os.pwrite(fd, data, size)
            if written < total:
                self._write_rest(fd, memoryview(data), size, written)
        except OSError as error:
            self._undo_append(fd, size)
            raise storage_error(self.path, error) from error
        self._size = size + total

    def append_many(self, pieces: Sequence[Bytes]) -> None:
        fd = self._fd if self._fd >= 0 else self._open(os.O_RDWR | os.O_CREAT)
        size = self.size
        self.used = True
        total = sum(map(len, pieces))
        try:
            written = os.pwritev(fd, pieces, size)
            if written < total:
                self._write_rest(fd, memoryview(b"".join(pieces)), size, written)
        except OSError as error:
            self._undo_append(fd, size)
            raise storage_error(self.path, error) from error
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
        fd = self._fd
        if fd < 0:
            fd = self._open(os.O_RDWR)
        self.used = True
        try:
            data = os.pread(fd, nbytes, position)
            return data if len(data) == nbytes else self._read_rest(fd, position, nbytes, data)
        except OSError as error:
            raise storage_error(self.path, error) from error

    def _read_rest(self, fd: int, position: int, nbytes: int, data: bytes) -> bytes:
        """Continue a short read: before a bad sector it does not end at the end of the file."""
        while data and len(data) < nbytes:
            more = os.pread(fd, nbytes - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def truncate(self, nbytes: int) -> None:
        fd = self._fd if self._fd >= 0 else self._open(os.O_RDWR | os.O_CREAT)
        with _StorageErrors(self.path):
            os.ftruncate(fd, nbytes)
        self._size = nbytes

    def sync(self) -> None:
        fd = self._fd if self._fd >= 0 else self._open(os.O_RDWR)
        with _StorageErrors(self.path):
            os.fsync(fd)

    def sync_handle(self) -> SyncHandle:
        fd = self._fd if self._fd >= 0 else self._open(os.O_RDWR)
        with _StorageErrors(self.path):
            return OsSyncHandle(self.path, os.dup(fd))

    def rename(self, new_path: str) -> None:
        self._files.rename(self.path, new_path)
        self.path = new_path

    def moved(self, new_path: str) -> None:
        self.path = new_path

    def close(self) -> None:
        if self._fd >= 0:
            self._files.closed(self)
            self.release_descriptor()

    def release_descriptor(self) -> None:
        fd, self._fd = self._fd, -1
        os.close(fd)

    def fileno(self) -> int:
        self.used = True
        return self._fd if self._fd >= 0 else self._open(os.O_RDWR)


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

    __slots__ = ("_open", "open_max")

    def __init__(self, open_max: int | None = None) -> None:
        if open_max is None:
            # The other half is left for sockets.
            open_max = max(16, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        self.open_max = open_max
        self._open: dict[OsFile, None] = {}

    @property
    def open_count(self) -> int:
        return len(self._open)

    def for_other_thread(self) -> Files:
        return OsFiles(OTHER_THREAD_OPEN_MAX)

    def opened(self, file: OsFile) -> None:
        self._open[file] = None
        while len(self._open) > self.open_max:
            oldest = next(iter(self._open))
            del self._open[oldest]
            if oldest.used or oldest is file:
                # Second chance: it was used since the last sweep, so move it to the end of the queue.
                oldest.used = False
                self._open[oldest] = None
            else:
                oldest.release_descriptor()

    def closed(self, file: OsFile) -> None:
        self._open.pop(file, None)

    def open(self, path: str) -> File:
        return OsFile(self, path)

    def create(self, path: str) -> File:
        with _StorageErrors(path):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644))
        return OsFile(self, path, size=0)

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
        with _StorageErrors(path):
            return os.listdir(path)

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

                shutil.rmtree(path)

    def read_bytes(self, path: str) -> bytes | None:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(path, error) from error
        try:
            with _StorageErrors(path):
                return _read_all(lambda nbytes: os.read(fd, nbytes))
        finally:
            os.close(fd)

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        temporary = path + ".tmp"
        with _StorageErrors(path):
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(fd, view) :]
                if durable:
                    os.fsync(fd)
            finally:
                os.close(fd)
            os.rename(temporary, path)
        if durable:
            self.sync_dir(os.path.dirname(path) or ".")

    def sync_dir(self, path: str) -> None:
        with _StorageErrors(path):
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
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
        with _StorageErrors(path):
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                if syncfs(fd) != 0:
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number))
            finally:
                os.close(fd)

    def lock(self, path: str) -> Lock:
        with _StorageErrors(path):
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
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
