"""A range of whole batches in a segment file, which Fetch sends without copying it into Python."""

from __future__ import annotations

from typing import Protocol

from ottla.storage.errors import StorageError
from ottla.storage.files import File


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

    def read(self) -> bytes:
        """Return all bytes, or raise StorageError: their number may already be announced to a client."""
        if self.file is None:
            return b""
        try:
            data = self.file.read(self.position, self.nbytes)
            if len(data) != self.nbytes:
                raise self.too_short(len(data))
        except StorageError:
            self.failed()
            raise
        return data

    def fileno(self) -> int:
        """Return a descriptor for sendfile, valid until the next storage call: request it before each
        send."""
        assert self.file is not None
        try:
            return self.file.fileno()
        except StorageError:
            self.failed()
            raise

    def after(self, nbytes: int) -> FileRegion:
        """Return the rest of the region after its first `nbytes`."""
        return FileRegion(
            self.file, self.position + nbytes, self.nbytes - nbytes, self.upper_offset, segment=self._segment
        )

    def first(self, nbytes: int) -> FileRegion:
        """Return the first `nbytes` of the region."""
        return FileRegion(self.file, self.position, nbytes, self.upper_offset, segment=self._segment)

    def failed(self) -> None:
        """The bytes could not be read: have them verified before they are served again."""
        if self._segment is not None:
            self._segment.distrust()

    def too_short(self, found_bytes: int) -> StorageError:
        assert self.file is not None
        return StorageError(
            self.file.path, f"{found_bytes} of {self.nbytes} bytes at position {self.position} are there"
        )

    def __repr__(self) -> str:
        return f"FileRegion({self.file.path if self.file else None}, {self.position}, {self.nbytes})"


EMPTY_REGION = FileRegion(None, 0, 0)
