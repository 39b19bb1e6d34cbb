"""The partition of each key in a column, as the Java client computes it: murmur2, compiled if available."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.records._pure import Column
    from ottla.records.batch import WritableBuffer

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes | memoryview) -> int:
    """Return the 32-bit hash as an unsigned number (Java shows the same bits as a signed one)."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        k = (k ^ (k >> 24)) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if length != whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ (h >> 13)) * _M & _MASK
    return h ^ (h >> 15)


def partitions_of_keys_plain(key_buffers: Column, partition_count: int, out: WritableBuffer) -> None:
    """Write an int32 for each row to `out`: the partition of its key, -1 if the key is null."""
    from ottla.records._pure import _Input

    if partition_count <= 0:
        raise ValueError("no partitions")
    keys = _Input(key_buffers)
    cells = memoryview(out).cast("B").cast("i")
    if len(cells) < keys.length:
        raise ValueError("buffer too small")
    for row in range(keys.length):
        key = keys.get(row)
        cells[row] = -1 if key is None else (murmur2(key) & 0x7FFFFFFF) % partition_count


partitions_of_keys = partitions_of_keys_plain
if os.environ.get("OTTLA_PURE") != "1":
    with contextlib.suppress(ImportError):  # not compiled, or compiled from an older version
        from ottla.records._kernel import partitions_of_keys

__all__ = ["murmur2", "partitions_of_keys", "partitions_of_keys_plain"]
