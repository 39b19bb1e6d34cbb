"""A range of whole batches in a segment file, which Fetch sends without copying it into Python."""

from __future__ import annotations

from ottla.storage.files import File


class FileRegion:
    """`nbytes` of `file` from `position`. Every offset in it is below `upper_offset`. The file is opened on
    use."""

    __slots__ = ("file", "nbytes", "position", "upper_offset")

    def __init__(self, file: File | None, position: int, nbytes: int, upper_offset: int = 0) -> None:
        assert nbytes == 0 or file is not None
        self.file = file
        self.position = position
        self.nbytes = nbytes
        self.upper_offset = upper_offset

    def __len__(self) -> int:
        return self.nbytes

    def read(self) -> bytes:
        return b"" if self.file is None else self.file.read(self.position, self.nbytes)

    def fileno(self) -> int:
        """Return a descriptor for sendfile, valid until the next storage call: request it before each
        send."""
        assert self.file is not None
        return self.file.fileno()

    def __repr__(self) -> str:
        return f"FileRegion({self.file.path if self.file else None}, {self.position}, {self.nbytes})"


EMPTY_REGION = FileRegion(None, 0, 0)
