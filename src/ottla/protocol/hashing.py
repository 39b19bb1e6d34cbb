"""Java's string hash, which maps group ids and transactional ids to the partitions of their topics."""

from __future__ import annotations


def java_hash(text: str) -> int:
    """Hash UTF-16 code units: h = 31 h + unit, as a signed 32-bit number."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(encoded), 2):
        value = (31 * value + (encoded[index] << 8 | encoded[index + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def java_hash_partition(text: str, partitions: int) -> int:
    """Return |hash| modulo the partition count; the most negative number counts as 0."""
    value = java_hash(text)
    return 0 if value == -(2**31) else abs(value) % partitions
