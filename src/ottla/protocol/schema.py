"""Parser for the schemas of generated messages: one line of text per field.

    name type versions [null:versions] [tag:number:versions] [default:value] [ignorable] [inflexible]

`type` is a primitive, the name of a struct in the same module, or `[]` and one of these. `versions` is "3",
"3+" or "3-5": where the field exists, where it may be null, where it is a tagged field. A field that is not
`ignorable` must have its default in versions that lack it. `inflexible` keeps the old length prefix in all
versions.
"""

from __future__ import annotations

import sys
from typing import Any

from ottla.protocol.uuids import ZERO_UUID

VERSION_MAX = 32767

# Primitives of a fixed size: the code in the struct module, and the size.
FIXED: dict[str, tuple[str, int]] = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
_DEFAULTS: dict[str, Any] = {"bool": False, "string": "", "bytes": b"", "records": None, "uuid": ZERO_UUID}


class Versions:
    """A closed range of versions."""

    __slots__ = ("high", "low")

    def __init__(self, text: str) -> None:
        if text.endswith("+"):
            self.low, self.high = int(text[:-1]), VERSION_MAX
        else:
            low, _, high = text.partition("-")
            self.low, self.high = int(low), int(high or low)

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high


class Field:
    """One field of a struct. `struct` is the class of its value, or of the elements of the array, if any."""

    __slots__ = (
        "default",
        "element",
        "ignorable",
        "inflexible",
        "is_array",
        "name",
        "nullable",
        "struct",
        "tag",
        "tagged",
        "versions",
    )

    def __init__(self, line: str, namespace: dict[str, Any]) -> None:
        self.name, kind, versions, *options = line.split()
        self.is_array = kind.startswith("[]")
        self.element = kind.removeprefix("[]")
        self.struct: type[Any] | None = namespace[self.element] if self.element[0].isupper() else None
        self.versions = Versions(versions)
        self.nullable: Versions | None = None
        self.tag = -1
        self.tagged: Versions | None = None
        self.ignorable = self.inflexible = False
        # None, a constant, or (for arrays and structs, which need a fresh one each time) Ellipsis.
        self.default: Any = ... if self.is_array or self.struct else _DEFAULTS.get(self.element, 0)
        for option in options:
            word, _, rest = option.partition(":")
            if word == "null":
                self.nullable = Versions(rest)
            elif word == "tag":
                number, _, tagged = rest.partition(":")
                self.tag, self.tagged = int(number), Versions(tagged)
            elif word == "default":
                self.default = None if rest == "null" else rest == "true" if rest[0] == "t" else int(rest)
            else:
                assert word in ("ignorable", "inflexible"), line
                setattr(self, word, True)

    def is_in(self, version: int) -> bool:
        return version in self.versions

    def is_nullable_in(self, version: int) -> bool:
        return self.nullable is not None and version in self.nullable

    def is_tagged_in(self, version: int) -> bool:
        return self.tagged is not None and version in self.tagged

    @property
    def has_fresh_default(self) -> bool:
        return self.default is ...


_parsed: dict[type[Any], list[Field]] = {}


def fields_of(cls: type[Any]) -> list[Field]:
    """The fields of a generated class in wire order."""
    fields = _parsed.get(cls)
    if fields is None:
        namespace = vars(sys.modules[cls.__module__])
        lines = cls.SCHEMA.strip().splitlines()
        fields = _parsed[cls] = [Field(line, namespace) for line in lines]
    return fields


def has_records(cls: type[Any], version: int) -> bool:
    """Whether any field of the message, at any depth, contains record batches."""
    return any(
        field.element == "records" or (field.struct is not None and has_records(field.struct, version))
        for field in fields_of(cls)
        if field.is_in(version)
    )


def element_bytes_min(field: Field, version: int, flexible: bool) -> int:
    """The minimum size of a value, or of an array element, on the wire."""
    if field.struct is not None:
        return struct_bytes_min(field.struct, version, flexible)
    if field.element in FIXED:
        return FIXED[field.element][1]
    return 1 if flexible and not field.inflexible else 2 if field.element == "string" else 4


def struct_bytes_min(cls: type[Any], version: int, flexible: bool) -> int:
    total = 1 if flexible else 0
    for field in fields_of(cls):
        if not field.is_in(version) or field.is_tagged_in(version):
            continue
        if field.is_array:
            total += 1 if flexible else 4
        elif field.struct is not None and field.is_nullable_in(version):
            total += 1
        else:
            total += element_bytes_min(field, version, flexible)
    return total
