"""The base of every generated message: equality, text, and the way to and from bytes.

A message class carries a schema (see ottla.protocol.schema). The functions that read and write one version
of it are compiled at its first use and kept in READERS and WRITERS of that class.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any, ClassVar, Self, TypeAlias

from ottla.protocol.errors import DecodeError, EncodeError
from ottla.protocol.uuids import ZERO_UUID

__all__ = ["UNSET", "ZERO_UUID", "Buffer", "Message", "Part", "Records", "Struct"]

Buffer: TypeAlias = bytes | bytearray | memoryview
# What an encoded message is made of: bytes, or whatever stands in a `records` field (a region of a file).
Part: TypeAlias = bytes | bytearray | memoryview | Sized
# A `records` field: a memoryview of the input when decoded; anything with a length when encoded; None.
Records: TypeAlias = Any
Reader: TypeAlias = Callable[[Buffer, int], tuple[Any, int]]
Writer: TypeAlias = Callable[[Any, bytes], list[Part]]

# Stands for "a fresh empty list or struct" in signatures, where None already means null.
UNSET: Any = type("Unset", (), {"__slots__": (), "__repr__": lambda self: "UNSET"})()


class Value:
    """Fields in slots, compared by what they hold and shown with it."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"


class Struct(Value):
    """A part of a message."""

    __slots__ = ()
    SCHEMA: ClassVar[str] = ""


class Message(Struct):
    """A whole message, with the versions it exists in."""

    __slots__ = ()
    API_KEY: ClassVar[int] = -1
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = -1
    MAX_STABLE_VERSION: ClassVar[int] = -1
    FLEXIBLE_FROM: ClassVar[int] = 32767
    READERS: ClassVar[dict[int, Reader]] = {}
    WRITERS: ClassVar[dict[int, Writer]] = {}

    @classmethod
    def decode(cls, version: int, buffer: Buffer, pos: int = 0) -> Self:
        """The message that fills the buffer from `pos` to its end. Raises DecodeError."""
        try:
            reader = cls.READERS[version]
        except KeyError:
            reader = _compile_reader(cls, version)
        message, end = reader(buffer, pos)
        if end != len(buffer):
            raise DecodeError(f"{len(buffer) - end} bytes too many after {cls.__name__} v{version}")
        return message  # type: ignore[no-any-return]

    @classmethod
    def read(cls, version: int, buffer: Buffer, pos: int = 0) -> tuple[Self, int]:
        """The message at `pos`, and the position after it. Raises DecodeError."""
        try:
            reader = cls.READERS[version]
        except KeyError:
            reader = _compile_reader(cls, version)
        return reader(buffer, pos)

    def encode(self, version: int) -> bytes:
        """Raises EncodeError for a field that this version cannot carry."""
        try:
            writer = self.WRITERS[version]
        except KeyError:
            writer = _compile_writer(type(self), version)
        parts: list[Any] = writer(self, b"")
        try:
            return b"".join(parts)
        except TypeError as error:
            raise EncodeError(f"{type(self).__name__} v{version}: records are not in memory") from error

    def encode_parts(self, version: int, head: bytes = b"") -> list[Part]:
        """`head` and the message in pieces: what stands in `records` fields is handed on as it is."""
        try:
            writer = self.WRITERS[version]
        except KeyError:
            writer = _compile_writer(type(self), version)
        return writer(self, head)


def _compile_reader(cls: type[Message], version: int) -> Reader:
    if not cls.MIN_VERSION <= version <= cls.MAX_VERSION:
        raise DecodeError(f"{cls.__name__} has no version {version}")
    from ottla.protocol.compile_read import compile_reader

    reader = cls.READERS[version] = compile_reader(cls, version)
    return reader


def _compile_writer(cls: type[Message], version: int) -> Writer:
    if not cls.MIN_VERSION <= version <= cls.MAX_VERSION:
        raise EncodeError(f"{cls.__name__} has no version {version}")
    from ottla.protocol.compile_write import compile_writer

    writer = cls.WRITERS[version] = compile_writer(cls, version)
    return writer
