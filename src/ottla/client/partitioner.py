"""Which partition a keyed record goes to: murmur2, so that we agree with the Java client."""

from __future__ import annotations

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit hash as an unsigned number (Java prints the same bits as a signed one)."""
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


def partition_for_key(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
