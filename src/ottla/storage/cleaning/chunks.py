"""Reading a segment file in chunks of whole batches, in another thread than the one that serves it."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.records.batch import HEADER_BYTES, CorruptBatch, read_header
from ottla.storage.errors import CorruptLog
from ottla.storage.files import Files


class SegmentView:
    """A closed segment, as of the start of the cleaning."""

    __slots__ = ("base_offset", "end_offset", "path", "size")

    def __init__(self, path: str, base_offset: int, end_offset: int, size: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.end_offset = end_offset  # where the next segment begins
        self.size = size


class Chunks:
    """Iterator over chunks. Set `used` to the bytes consumed of a chunk before requesting the next one."""

    __slots__ = ("_bytes", "_files", "_view", "used")

    def __init__(self, files: Files, view: SegmentView, chunk_bytes: int) -> None:
        self._files = files
        self._view = view
        self._bytes = max(chunk_bytes, HEADER_BYTES)
        self.used = 0

    def __iter__(self) -> Iterator[bytes]:
        view, position = self._view, 0
        file = self._files.open(view.path)
        try:
            while position < view.size:
                read_size = min(self._bytes, view.size - position)
                data = file.read(position, read_size)
                try:
                    first_bytes = read_header(data).size_bytes
                except CorruptBatch as error:
                    raise CorruptLog(view.path, f"no batch at position {position}: {error}") from None
                if first_bytes > view.size - position:
                    raise CorruptLog(view.path, f"batch at position {position} is incomplete")
                if first_bytes > read_size:
                    data = file.read(position, first_bytes)
                self.used = 0
                yield data
                if not self.used:
                    raise CorruptLog(view.path, f"no whole batch at position {position}")
                position += self.used
        finally:
            file.close()
