"""Which partition a keyed record goes to: murmur2, so that we agree with the Java client."""

from __future__ import annotations

from ottla.records.partitions import murmur2

__all__ = ["murmur2", "partition_for_key"]


def partition_for_key(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
