"""A cache of large encoded Metadata responses.

A response with ten thousand partitions takes tens of milliseconds to build, and after a change of the cluster
all clients request the same one. The bytes are kept until the metadata changes; small responses are
not worth it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ottla.protocol.message import Message, Part

CACHED_BYTES_MIN = 16_384
CACHED_MAX = 8
CACHED_BYTES_MAX = 8_388_608


class EncodedResponse(Message):
    """A response encoded in one version, in place of the message."""

    __slots__ = ("_body",)

    def __init__(self, body: bytes) -> None:
        self._body = body

    def encode_parts(self, version: int, head: bytes = b"") -> list[Part]:
        return [head, self._body]


class MetadataResponseCache:
    __slots__ = ("_bytes", "_responses", "_state")

    def __init__(self) -> None:
        self._state: Any = None
        self._responses: dict[Hashable, bytes] = {}
        self._bytes = 0

    def find(self, state: Any, key: Hashable) -> EncodedResponse | None:
        """`state` is everything that responses depend on: those for another state are dropped."""
        if state != self._state:
            self._state = state
            self._responses.clear()
            self._bytes = 0
        body = self._responses.get(key)
        return None if body is None else EncodedResponse(body)

    def store(self, key: Hashable, response: Message, version: int) -> EncodedResponse:
        """Encode and keep a response for the state of the last `find`."""
        body = response.encode(version)
        if len(body) >= CACHED_BYTES_MIN:
            if len(self._responses) >= CACHED_MAX or self._bytes + len(body) > CACHED_BYTES_MAX:
                self._responses.clear()
                self._bytes = 0
            self._responses[key] = body
            self._bytes += len(body)
        return EncodedResponse(body)
