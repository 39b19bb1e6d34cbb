"""Random instances of every message, and a simple codec to compare with the compiled one."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

from ottla.protocol import messages
from ottla.protocol.api import message_class
from ottla.protocol.message import Message
from ottla.protocol.schema import FIXED, Field, fields_of

INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
LETTERS = "abcXYZ09-_. \0\n~\u00e9\u4e2d\U0001f600"


def all_message_names() -> list[str]:
    """List the directory, so that no message is missed."""
    names = []
    for path in sorted(Path(messages.__path__[0]).glob("*.py")):
        if path.stem not in ("__init__", "table"):
            first_line = path.read_text(encoding="utf-8").split("\n", 1)[0]
            names.append(first_line.split(",")[0].strip('"'))
    return names


MESSAGE_NAMES = all_message_names()


def versions_of(cls: type[Message]) -> range:
    return range(cls.MIN_VERSION, cls.MAX_VERSION + 1)


def every_message() -> list[tuple[type[Message], int]]:
    return [(cls, version) for cls in map(message_class, MESSAGE_NAMES) for version in versions_of(cls)]


class Sampler:
    """Draws values that a field can have; `special` may narrow them for what another codec can represent."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)

    def special(self, kind: Any, field: Field) -> Any:
        """Return a value for a field that the other codec restricts, or Ellipsis."""
        return ...

    def knows(self, field: Field) -> bool:
        """Return whether the other codec has the field."""
        return True

    def inner(self, kind: Any, field: Field) -> Any:
        """Return the other codec's type of the elements of a field."""
        return None

    def kinds(self, kind: Any, cls: type[Any], version: int) -> dict[str, Any]:
        """Return the other codec's type of each field."""
        return {}

    def instance(self, cls: type[Any], version: int, kind: Any = None) -> Any:
        """Draw all fields of this version; the others keep their defaults."""
        kinds = self.kinds(kind, cls, version)
        found = cls()
        for field in fields_of(cls):
            if field.is_in(version) and self.knows(field):
                if field.is_tagged_in(version) and self.rng.random() < 0.3:
                    continue
                setattr(found, field.name, self.value(field, version, kinds.get(field.name)))
        return found

    def value(self, field: Field, version: int, kind: Any) -> Any:
        narrowed = self.special(kind, field)
        if narrowed is not ...:
            return narrowed
        if field.is_nullable_in(version) and self.rng.random() < 0.25:
            return None
        if not field.is_array:
            return self.element(field, version, kind)
        choices = [0, 1, 2, 3, 20, 130] if field.struct is None else [0, 1, 2]
        return [self.element(field, version, kind) for _ in range(self.rng.choice(choices))]

    def element(self, field: Field, version: int, kind: Any) -> Any:
        if field.struct is not None:
            return self.instance(field.struct, version, self.inner(kind, field))
        return self.primitive(field.element)

    def primitive(self, element: str) -> Any:
        rng = self.rng
        length = rng.choice((0, 1, 7, 126, 127, 300) if rng.random() < 0.1 else (0, 1, 7))
        match element:
            case "bool":
                return rng.random() < 0.5
            case "float64":
                return rng.choice((0.0, -1.5, 1e300, rng.random()))
            case "uuid":
                return rng.choice((bytes(16), rng.randbytes(16)))
            case "string":
                return "".join(rng.choices(LETTERS, k=length))
            case "bytes" | "records":
                return rng.randbytes(length)
        low, high = INTEGERS[element]
        return rng.choice((0, 1, low, high, rng.randint(low, high)))


def slow_encode(message: Any, version: int) -> bytes:
    """Encode field by field, as the protocol is specified."""
    return _slow_struct(message, version, version >= message.FLEXIBLE_FROM)


def _slow_struct(value: Any, version: int, flexible: bool) -> bytes:
    out = b""
    tags: dict[int, bytes] = {}
    for field in fields_of(type(value)):
        if not field.is_in(version):
            continue
        inner = getattr(value, field.name)
        if field.is_tagged_in(version):
            if inner != getattr(type(value)(), field.name):
                tags[field.tag] = _slow_field(field, inner, version, flexible)
        else:
            out += _slow_field(field, inner, version, flexible)
    if flexible:
        out += slow_uvarint(len(tags))
        for tag in sorted(tags):
            out += slow_uvarint(tag) + slow_uvarint(len(tags[tag])) + tags[tag]
    return out


def _slow_field(field: Field, value: Any, version: int, flexible: bool) -> bytes:
    compact = flexible and not field.inflexible
    if field.is_array:
        size = -1 if value is None else len(value)
        prefix = slow_uvarint(size + 1) if compact else struct.pack(">i", size)
        return prefix + b"".join(_slow_element(field, item, version, flexible) for item in value or [])
    if field.struct is not None and field.is_nullable_in(version):
        if value is None:
            return b"\0" if field.is_tagged_in(version) else b"\xff"
        return b"\x01" + _slow_element(field, value, version, flexible)
    return _slow_element(field, value, version, flexible)


def _slow_element(field: Field, value: Any, version: int, flexible: bool) -> bytes:
    if field.struct is not None:
        return _slow_struct(value, version, flexible)
    if field.element in FIXED:
        return struct.pack(">" + FIXED[field.element][0], value)
    data = value.encode("utf-8") if isinstance(value, str) else value
    size = -1 if data is None else len(data)
    if flexible and not field.inflexible:
        prefix = slow_uvarint(size + 1)
    else:
        prefix = struct.pack(">h" if field.element == "string" else ">i", size)
    return prefix + (data or b"")


def slow_uvarint(value: int) -> bytes:
    groups = [value & 127]
    while value := value >> 7:
        groups.append(value & 127)
    return bytes([group | 128 for group in groups[:-1]] + [groups[-1]])
