"""Spark's way to write a schema, `id bigint, items array<struct<sku: string>>`, read without a Spark session.

PySpark asks the JVM for this, and there is none where a data source tells its schema. Everything is nullable,
as in Spark's `from_json`: what a record lacks is null, whatever the schema promised.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Never, TypeVar

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_SIMPLE: dict[str, type[DataType]] = {
    "boolean": BooleanType,
    "tinyint": ByteType,
    "byte": ByteType,
    "smallint": ShortType,
    "short": ShortType,
    "int": IntegerType,
    "integer": IntegerType,
    "bigint": LongType,
    "long": LongType,
    "float": FloatType,
    "real": FloatType,
    "double": DoubleType,
    "string": StringType,
    "binary": BinaryType,
    "date": DateType,
    "timestamp": TimestampType,
    "timestamp_ltz": TimestampType,
    "timestamp_ntz": TimestampNTZType,
}
_DECIMALS = ("decimal", "dec", "numeric")
_TEXTS = ("varchar", "char", "character")
DECIMAL_DIGITS_MAX = 38
_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|(\w+)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(.))", re.DOTALL)

Kind = TypeVar("Kind", bound=DataType)


class _Token(NamedTuple):
    text: str
    at: int
    quoted: bool = False
    word: bool = False


def parse_ddl(text: str) -> DataType:
    """Columns as a StructType, or one type by itself. Raises ValueError that says where."""
    try:
        return _Parser(text).columns_only()
    except ValueError as error:
        try:
            return _Parser(text).type_only()
        except ValueError:
            raise error from None


def nullable(kind: DataType) -> DataType:
    """The same type with every field nullable. Raises ValueError for one that cannot be decoded into."""
    if isinstance(kind, StructType):
        return StructType([StructField(field.name, nullable(field.dataType)) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(nullable(kind.elementType))
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        return MapType(StringType(), nullable(kind.valueType))
    if isinstance(kind, DecimalType | StringType) or type(kind) in _SIMPLE.values():
        return StringType() if isinstance(kind, StringType) else kind
    raise ValueError(f"the type {kind.simpleString()} is not supported in a schema")


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[_Token] = []
        for match in _TOKEN.finditer(text.rstrip()):
            name, word, comment, other = match.groups()
            at = match.start(match.lastindex or 0)
            if name is not None:
                self._tokens.append(_Token(name[1:-1].replace("``", "`"), at, quoted=True, word=True))
            elif word is not None:
                self._tokens.append(_Token(word, at, word=True))
            else:
                self._tokens.append(_Token(comment or other, at))
        self._next = 0

    def columns_only(self) -> StructType:
        return self._to_the_end(self._columns(None))

    def type_only(self) -> DataType:
        return self._to_the_end(self._type())

    def _to_the_end(self, found: Kind) -> Kind:
        if self._next < len(self._tokens):
            self._expected("a comma or the end")
        return found

    def _columns(self, closing: str | None) -> StructType:
        fields: list[StructField] = []
        seen: dict[str, bool] = {}
        while True:
            token = self._peek()
            if token is None or not token.word:
                self._expected("the name of a column")
            name = self._take().text
            if name.lower() in seen:
                raise ValueError(f"schema {self._text!r}: the column {name!r} is there twice")
            seen[name.lower()] = True
            self._skip(":")
            fields.append(StructField(name, self._type()))
            if self._skip("not") and not self._skip("null"):
                self._expected("NULL")
            if self._skip("comment"):
                self._take()
            if not self._skip(","):
                break
        if closing is not None and not self._skip(closing):
            self._expected(f"a comma or {closing!r}")
        return StructType(fields)

    def _type(self) -> DataType:
        token = self._peek()
        if token is None or not token.word or token.quoted:
            self._expected("a type")
        name = self._take().text.lower()
        if name in _SIMPLE:
            return _SIMPLE[name]()
        if name in _DECIMALS:
            return self._decimal()
        if name in _TEXTS:
            self._numbers()
            return StringType()
        if name == "array":
            self._need("<")
            element = self._type()
            self._need(">")
            return ArrayType(element)
        if name == "map":
            return self._map()
        if name == "struct":
            self._need("<")
            return self._columns(">")
        self._next -= 1
        return self._expected("a type")

    def _map(self) -> MapType:
        self._need("<")
        key = self._type()
        self._need(",")
        value = self._type()
        self._need(">")
        if not isinstance(key, StringType):
            raise ValueError(f"schema {self._text!r}: the keys of a map must be strings")
        return MapType(key, value)

    def _decimal(self) -> DecimalType:
        numbers = self._numbers()
        precision, scale = [*numbers, *(10, 0)[len(numbers) :]][:2]
        if len(numbers) > 2 or not 0 <= scale <= precision <= DECIMAL_DIGITS_MAX or precision == 0:
            raise ValueError(f"schema {self._text!r}: a decimal has 1 to 38 digits, not {numbers}")
        return DecimalType(precision, scale)

    def _numbers(self) -> list[int]:
        found: list[int] = []
        if not self._skip("("):
            return found
        while True:
            token = self._peek()
            if token is None or not token.text.isdecimal():
                self._expected("a number")
            found.append(int(self._take().text))
            if not self._skip(","):
                self._need(")")
                return found

    def _peek(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _take(self) -> _Token:
        token = self._peek()
        if token is None:
            return self._expected("more")
        self._next += 1
        return token

    def _skip(self, text: str) -> bool:
        token = self._peek()
        if token is None or token.quoted or token.text.lower() != text:
            return False
        self._next += 1
        return True

    def _need(self, text: str) -> None:
        if not self._skip(text):
            self._expected(repr(text))

    def _expected(self, what: str) -> Never:
        token = self._peek()
        found = "it ends" if token is None else f"there is {token.text!r} at {token.at + 1}"
        raise ValueError(f"schema {self._text!r}: expected {what}, but {found}")
