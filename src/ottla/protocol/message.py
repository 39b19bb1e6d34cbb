"""Base class of the generated messages: equality, repr, encoding and decoding.

A message class carries a schema (see ottla.protocol.schema). The functions that read and write one version
of it are compiled at its first use and kept in READERS and WRITERS of that class.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from ottla.protocol.codec_types import Buffer, Part, Reader, Records, Writer
from ottla.protocol.errors import DecodeError, EncodeError
from ottla.protocol.uuids import ZERO_UUID

__all__ = ["UNSET", "ZERO_UUID", "Buffer", "Message", "Part", "Records", "Struct"]

# Means "a new empty list or struct" in signatures, where None means null.
UNSET: Any = type("Unset", (), {"__slots__": (), "__repr__": lambda self: "UNSET"})()


class Value:
    """Fields in slots, compared and shown by value."""

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
    """A struct inside a message."""

    __slots__ = ()
    SCHEMA: ClassVar[str] = ""


class Message(Struct):
    """A message, with its versions."""

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
        """Decode the message from `pos` to the end of the buffer. Raises DecodeError."""
        try:
            reader = cls.READERS[version]
        except KeyError:
            reader = _compile_reader(cls, version)
        message, end = reader(buffer, pos)
        if end != len(buffer):
            raise DecodeError(f"{len(buffer) - end} trailing bytes after {cls.__name__} v{version}")
        return message  # type: ignore[no-any-return]

    @classmethod
    def read(cls, version: int, buffer: Buffer, pos: int = 0) -> tuple[Self, int]:
        """Decode the message at `pos`; return it and the position after it. Raises DecodeError."""
        try:
            reader = cls.READERS[version]
        except KeyError:
            reader = _compile_reader(cls, version)
        return reader(buffer, pos)

    def encode(self, version: int) -> bytes:
        """Encode the message. Raises EncodeError for a field that this version cannot represent."""
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
        """Return `head` and the message in parts; the content of `records` fields is not copied."""
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
