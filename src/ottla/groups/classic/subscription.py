"""The part of a consumer's metadata that the coordinator may read: the topics it subscribes to.

All versions of the subscription begin with version and topics, so later versions can be read as well.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812

_INT16 = Struct(">h")
_VERSION_AND_COUNT = Struct(">hi")


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """Return None if the bytes are not a subscription: clients may send arbitrary bytes."""
    try:
        version, count = _VERSION_AND_COUNT.unpack_from(metadata)
        # Every topic takes at least two bytes.
        if version < 0 or not 0 <= count <= len(metadata) // 2:
            return None
        topics = []
        pos = _VERSION_AND_COUNT.size
        for _ in range(count):
            (length,) = _INT16.unpack_from(metadata, pos)
            pos += 2
            if length < 0 or pos + length > len(metadata):
                return None
            topics.append(str(metadata[pos : pos + length], "utf-8"))
            pos += length
    except (StructError, UnicodeDecodeError):
        return None
    return topics
