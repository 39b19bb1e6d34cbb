"""Scanning the batches of a segment file: headers only, or with their checksums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.records.batch import HEADER_BYTES, LENGTH_PREFIX_BYTES, BatchHeader, CorruptBatch, read_header
from ottla.storage.errors import CorruptLog
from ottla.storage.files import File

if TYPE_CHECKING:
    from typing import Protocol

    class Readable(Protocol):
        """The part of `File` that a scan uses."""

        path: str

        def read(self, position: int, size: int) -> bytes: ...


_CHUNK_BYTES = 8192
_BODY_CHUNK_BYTES = 1 << 20


class OffsetTooLow(CorruptLog):
    """A batch whose offset is not above those before it."""

    def __init__(self, path: str, position: int, header: BatchHeader) -> None:
        super().__init__(path, _misplaced(position, header))
        self.position = position
        self.header = header


def iter_batches(file: Readable, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each batch in [position, end), which must contain whole batches.

    Raises CorruptLog if the bytes are not batches with increasing offsets. Records are not read.
    """
    chunk = b""
    chunk_at = position
    next_offset = 0
    while position < end:
        inside = position - chunk_at
        if inside + HEADER_BYTES > len(chunk):
            chunk = file.read(position, min(_CHUNK_BYTES, end - position))
            chunk_at, inside = position, 0
        try:
            header = read_header(chunk, inside)
        except CorruptBatch as error:
            raise CorruptLog(file.path, f"no batch at position {position}: {error}") from None
        size = header.batch_length + LENGTH_PREFIX_BYTES
        if header.last_offset_delta < 0 or position + size > end:
            raise CorruptLog(file.path, _misplaced(position, header))
        if header.base_offset < next_offset:
            raise OffsetTooLow(file.path, position, header)
        yield position, header
        next_offset = header.base_offset + header.last_offset_delta + 1
        position += size


def _misplaced(position: int, header: BatchHeader) -> str:
    size = header.batch_length + LENGTH_PREFIX_BYTES
    return f"batch at position {position} (offset {header.base_offset}, {size} bytes) does not fit here"


def read_batches(file: File, position: int, end: int) -> bytes:
    """Read a chunk of [position, end), with at least the batch at `position` if that is whole."""
    chunk = file.read(position, min(_BODY_CHUNK_BYTES, end - position))
    if HEADER_BYTES <= len(chunk) < end - position:
        try:
            size = read_header(chunk).size_bytes
        except CorruptBatch:
            return chunk
        if len(chunk) < size <= end - position:
            chunk = file.read(position, size)
    return chunk


def iter_producer_batches(
    file: File, position: int, end: int
) -> Iterator[tuple[bytes, list[tuple[int, BatchHeader]]]]:
    """Yield chunks of [position, end), with the batches in them that determine the producer state.

    Raises CorruptLog if the bytes are not whole batches with increasing offsets.
    """
    from ottla.records.scan import SCANNED, producer_batches

    next_offset = 0
    while position < end:
        chunk = read_batches(file, position, end)
        status, found, consumed, next_offset = producer_batches(chunk, 0, len(chunk), next_offset)
        if status != SCANNED or not consumed:
            raise CorruptLog(file.path, f"no batch at position {position + consumed}")
        yield chunk, [(at, read_header(chunk, at)) for at in found]
        position += consumed


def iter_checked(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader, bool]]:
    """Yield (position, header, whether its offset and checksum are valid) of each batch.

    Stops before the first invalid header, and after the first batch with an offset that is too low.
    """
    from ottla.records.batch import crc_ok

    ahead = _ReadAhead(file, end)
    try:
        for at, header in iter_batches(ahead, position, end):
            batch = ahead.read(at, header.batch_length + LENGTH_PREFIX_BYTES)
            yield at, header, crc_ok(batch, 0, header)
    except OffsetTooLow as found:
        yield found.position, found.header, False
    except CorruptLog:
        return


class _ReadAhead:
    """Reads a file in large chunks, for a scan of headers and of the records after them."""

    def __init__(self, file: File, end: int) -> None:
        self.path = file.path
        self._file = file
        self._end = end
        self._chunk = b""
        self._chunk_at = 0

    def read(self, position: int, size: int) -> bytes:
        inside = position - self._chunk_at
        if inside < 0 or inside + size > len(self._chunk):
            wanted = max(size, min(_BODY_CHUNK_BYTES, self._end - position))
            self._chunk = self._file.read(position, wanted)
            self._chunk_at, inside = position, 0
        return self._chunk[inside : inside + size]
