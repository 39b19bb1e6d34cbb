"""Types that messages and the compilers of their codecs share."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
# A part of an encoded message: bytes, or the content of a `records` field (a region of a file).
Part: TypeAlias = bytes | bytearray | memoryview | Sized
# A `records` field: a memoryview of the input when decoded; anything with a length when encoded; None.
Records: TypeAlias = Any
Reader: TypeAlias = Callable[[Buffer, int], tuple[Any, int]]
Writer: TypeAlias = Callable[[Any, bytes], list[Part]]
# A class of `ottla.protocol.message.Message`, which imports the compilers.
MessageClass: TypeAlias = type[Any]
