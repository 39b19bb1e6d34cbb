"""A range of whole batches in a segment file, which Fetch sends without copying it into Python."""

from __future__ import annotations

import errno
from typing import Protocol

from ottla.storage.errors import OutOfDescriptors, StorageError
from ottla.storage.files import File

_SOCKET_IS_FULL = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EINTR)


class RegionOwner(Protocol):
    """What a region uses of its segment."""

    def distrust(self) -> None: ...


class FileRegion:
    """`nbytes` of `file` from `position`. Every offset in it is below `upper_offset`. The file is opened on
    use.

    A region that cannot be read makes its segment verify its bytes before it serves them again. Otherwise
    every retry would fail in the middle of a response, which costs the client the whole connection.
    """

    __slots__ = ("_segment", "file", "nbytes", "position", "upper_offset")

    def __init__(
        self,
        file: File | None,
        position: int,
        nbytes: int,
        upper_offset: int = 0,
        *,
        segment: RegionOwner | None = None,
    ) -> None:
        assert nbytes == 0 or file is not None
        self.file = file
        self.position = position
        self.nbytes = nbytes
        self.upper_offset = upper_offset
        self._segment = segment

    def __len__(self) -> int:
        return self.nbytes

    def __repr__(self) -> str:
        return f"FileRegion({self.file.path if self.file else None}, {self.position}, {self.nbytes})"

    def read(self) -> bytes:
        """Return all bytes, or raise StorageError: their number may already be announced to a client."""
        if self.file is None:
            return b""
        try:
            data = self.file.read(self.position, self.nbytes)
            if len(data) != self.nbytes:
                raise self._too_short(self.file, len(data))
        except StorageError as error:
            self._failed(error)
            raise
        return data

    def sendfile(self, to_fileno: int, nbytes: int) -> int:
        """Send the first bytes to a socket without copying them; return how many of `nbytes` were sent.

        Raises StorageError, or OSError of the socket: BlockingIOError if it is full.
        """
        assert self.file is not None
        try:
            sent = self.file.sendfile(to_fileno, self.position, nbytes)
            if sent == 0:
                raise self._too_short(self.file, 0)
        except ConnectionError:
            raise
        except OSError as error:
            if error.errno not in _SOCKET_IS_FULL:
                self._failed(error)
            raise
        except StorageError as error:
            self._failed(error)
            raise
        return sent

    def after(self, nbytes: int) -> FileRegion:
        """Return the rest of the region after its first `nbytes`."""
        return FileRegion(
            self.file, self.position + nbytes, self.nbytes - nbytes, self.upper_offset, segment=self._segment
        )

    def first(self, nbytes: int) -> FileRegion:
        """Return the first `nbytes` of the region."""
        return FileRegion(self.file, self.position, nbytes, self.upper_offset, segment=self._segment)

    def _failed(self, error: Exception) -> None:
        if self._segment is not None and not isinstance(error, OutOfDescriptors):
            self._segment.distrust()

    def _too_short(self, file: File, found_bytes: int) -> StorageError:
        return StorageError(
            file.path, f"{found_bytes} of {self.nbytes} bytes at position {self.position} are there"
        )


EMPTY_REGION = FileRegion(None, 0, 0)
