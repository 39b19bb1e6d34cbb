"""A parser for Spark's schema DDL: `id bigint, items array<struct<sku: string>>`.

PySpark parses DDL in the JVM, which is not available where a data source returns its schema, nor where a
pipeline is validated. This module does not import PySpark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

# Types that values can be decoded into: every name and alias in Spark, and the canonical name.
PLAIN_TYPES = {
    "boolean": "boolean",
    "tinyint": "tinyint",
    "byte": "tinyint",
    "smallint": "smallint",
    "short": "smallint",
    "int": "int",
    "integer": "int",
    "bigint": "bigint",
    "long": "bigint",
    "float": "float",
    "real": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}
SIZED_TYPES = {
    "decimal": "decimal",
    "dec": "decimal",
    "numeric": "decimal",
    "varchar": "string",
    "char": "string",
    "character": "string",
}
NESTED_TYPES = ("array", "map", "struct")
# Types that Spark has, but that no value of a record can be decoded into.
SPARK_ONLY_TYPES = ("void", "variant", "interval", "time")
ALL_TYPES = (*PLAIN_TYPES, *SIZED_TYPES, *NESTED_TYPES, *SPARK_ONLY_TYPES)
DECIMAL_DIGITS_MAX = 38
_INTERVAL_WORDS = ("year", "month", "day", "hour", "minute", "second", "to")
_TOKEN = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<number>\d+)(?!\w)|(?P<name>\w+)"
    r"|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(?P<sign>[<>(),:]))",
    re.DOTALL,
)


class SchemaTextError(ValueError):
    """A syntax error at a character offset; `unknown_type` is the name that is not a type."""

    def __init__(self, offset: int, message: str, unknown_type: str | None = None) -> None:
        super().__init__(message)
        self.offset = offset
        self.unknown_type = unknown_type


class Type(NamedTuple):
    """A type by its canonical name; `inner` has the element type, or the key and value types."""

    name: str
    offset: int
    sizes: tuple[int, ...] = ()
    inner: tuple[Type, ...] = ()
    columns: tuple[Column, ...] = ()


class Column(NamedTuple):
    name: str
    type: Type


class _Token(NamedTuple):
    kind: str
    text: str
    offset: int


def parse_columns(text: str) -> tuple[Column, ...]:
    """Raises SchemaTextError."""
    parser = _Parser(text)
    if parser.is_at_end:
        raise SchemaTextError(0, "the schema is empty; expected columns such as id BIGINT, name STRING")
    found = parser.columns()
    parser.end()
    return found


def parse_type(text: str) -> Type:
    """Parse a single type. Raises SchemaTextError."""
    parser = _Parser(text)
    found = parser.type()
    parser.end()
    return found


def check_decodable(types: Sequence[Type]) -> None:
    """Raise SchemaTextError for a type that values cannot be decoded into."""
    for each in types:
        if each.name in SPARK_ONLY_TYPES:
            raise SchemaTextError(each.offset, f"values cannot be decoded into type {each.name.upper()}")
        if each.name == "map" and each.inner[0].name != "string":
            raise SchemaTextError(each.inner[0].offset, "map keys must be strings")
        if each.name == "struct" and not each.columns:
            raise SchemaTextError(each.offset, "a struct must have fields")
        check_decodable(each.inner)
        check_decodable([column.type for column in each.columns])


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[_Token] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            found = _TOKEN.match(text, at)
            if found is None or found.lastgroup is None:
                start = at + len(text[at:]) - len(text[at:].lstrip())
                raise SchemaTextError(start, f"unexpected character '{text[start]}'")
            kind = found.lastgroup
            self._tokens.append(_Token(kind, found[kind], found.start(kind)))
            at = found.end()
        self._tokens.append(_Token("end", "the end", len(text)))
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._next.kind == "end"

    def end(self) -> None:
        if not self.is_at_end:
            raise SchemaTextError(self._next.offset, f"expected ',' before {self._next.text}")

    def columns(self) -> tuple[Column, ...]:
        found: dict[str, Column] = {}
        while True:
            token = self._take()
            if token.kind not in ("name", "quoted"):
                raise SchemaTextError(token.offset, f"expected a column name, not {token.text}")
            name = token.text.replace("``", "`") if token.kind == "quoted" else token.text
            if name.lower() in found:
                raise SchemaTextError(token.offset, f"duplicate column '{name}'")
            self._accept(":")
            found[name.lower()] = Column(name, self.type())
            self._notes()
            if not self._accept(","):
                return tuple(found.values())

    def type(self) -> Type:
        token = self._take()
        if token.kind != "name":
            raise SchemaTextError(token.offset, f"expected a type, not {token.text}")
        name = token.text.lower()
        if name in PLAIN_TYPES:
            return Type(PLAIN_TYPES[name], token.offset)
        if name in SIZED_TYPES:
            return self._sized(SIZED_TYPES[name], token.offset)
        if name in NESTED_TYPES:
            return self._nested(name, token.offset)
        if name not in SPARK_ONLY_TYPES:
            raise SchemaTextError(token.offset, f"unknown type '{token.text}'", unknown_type=token.text)
        while name == "interval" and self._next.text.lower() in _INTERVAL_WORDS:
            self._take()
        return Type(name, token.offset, self._sizes())

    def _nested(self, name: str, offset: int) -> Type:
        self._expect("<")
        if name == "struct":
            columns = () if self._next.text == ">" else self.columns()
            self._expect(">")
            return Type(name, offset, columns=columns)
        inner = [self.type()]
        if name == "map":
            self._expect(",")
            inner.append(self.type())
        self._expect(">")
        return Type(name, offset, inner=tuple(inner))

    def _sized(self, name: str, offset: int) -> Type:
        sizes = self._sizes()
        if name != "decimal":
            return Type(name, offset)
        precision, scale = [*sizes, *(10, 0)[len(sizes) :]][:2]
        if len(sizes) > 2 or not 0 <= scale <= precision <= DECIMAL_DIGITS_MAX or precision == 0:
            given = ", ".join(str(size) for size in sizes)
            raise SchemaTextError(
                offset,
                f"invalid decimal({given}): the precision is 1 to {DECIMAL_DIGITS_MAX}, the scale 0 to the "
                "precision",
            )
        return Type(name, offset, (precision, scale))

    def _sizes(self) -> tuple[int, ...]:
        found: list[int] = []
        if not self._accept("("):
            return ()
        while True:
            token = self._take()
            if token.kind != "number":
                raise SchemaTextError(token.offset, f"expected a number, not {token.text}")
            found.append(int(token.text))
            if not self._accept(","):
                self._expect(")")
                return tuple(found)

    def _notes(self) -> None:
        if self._accept("not"):
            self._expect("null")
        if self._accept("comment"):
            token = self._take()
            if token.kind != "text":
                raise SchemaTextError(token.offset, "expected quoted text after COMMENT")

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._next
        self._at += token.kind != "end"
        return token

    def _accept(self, text: str) -> bool:
        found = self._next.text.lower() == text and self._next.kind in ("sign", "name")
        if found:
            self._take()
        return found

    def _expect(self, text: str) -> None:
        token = self._next
        if not self._accept(text):
            raise SchemaTextError(token.offset, f"expected '{text.upper()}' before {token.text}")
