"""Spark's schemas as text, `id BIGINT, tags ARRAY<STRING>`: checked here, before there is a Spark."""

from __future__ import annotations

import re
from typing import NamedTuple

from ottla.pipeline.document import suggestion

PLAIN_TYPES = [
    *("BOOLEAN", "BYTE", "TINYINT", "SHORT", "SMALLINT", "INT", "INTEGER", "LONG", "BIGINT", "FLOAT", "REAL"),
    *("DOUBLE", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "STRING", "BINARY", "VOID", "VARIANT"),
]
SIZED_TYPES = ("DECIMAL", "DEC", "NUMERIC", "CHAR", "CHARACTER", "VARCHAR")
NESTED_TYPES = ("ARRAY", "MAP", "STRUCT")
ALL_TYPES = (*PLAIN_TYPES, *SIZED_TYPES, *NESTED_TYPES)
_TOKEN = re.compile(
    r"\s*(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)|`(?P<quoted>(?:[^`]|``)+)`"
    r"|(?P<text>'(?:[^'\\]|\\.)*')|(?P<number>\d+)|(?P<sign>[<>(),:]))"
)


class DdlError(Exception):
    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset


class Token(NamedTuple):
    kind: str
    text: str
    offset: int


def column_names(ddl: str) -> list[str]:
    """The names of the columns. Raises DdlError, which says at which character."""
    return _Parser(ddl).fields()


class _Parser:
    def __init__(self, ddl: str) -> None:
        self._tokens: list[Token] = []
        at = 0
        while ddl[at:].strip():
            found = _TOKEN.match(ddl, at)
            if found is None or found.lastgroup is None:
                start = at + len(ddl[at:]) - len(ddl[at:].lstrip())
                raise DdlError(start, f"'{ddl[start]}' has no place in a schema")
            kind = found.lastgroup
            self._tokens.append(Token(kind, found[kind], found.start(kind)))
            at = found.end()
        self._tokens.append(Token("end", "the end", len(ddl)))
        self._at = 0

    def fields(self) -> list[str]:
        names: dict[str, None] = {}
        if self._next.kind == "end":
            raise DdlError(0, "a schema needs columns, e.g. id BIGINT, name STRING")
        while True:
            name = self._name()
            if name.text.lower() in names:
                raise DdlError(name.offset, f"the column '{name.text}' is there twice")
            self._accept(":")
            self._type()
            self._notes()
            names[name.text.lower()] = None
            if self._next.kind == "end":
                return [*names]
            self._expect(",")

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._next
        self._at += token.kind != "end"
        return token

    def _accept(self, text: str) -> bool:
        found = self._next.text.upper() == text and self._next.kind in ("sign", "name")
        if found:
            self._take()
        return found

    def _expect(self, text: str) -> None:
        token = self._next
        if not self._accept(text):
            raise DdlError(token.offset, f"expected '{text}' before {token.text}")

    def _name(self) -> Token:
        token = self._take()
        if token.kind not in ("name", "quoted"):
            raise DdlError(token.offset, f"expected the name of a column, not {token.text}")
        return token

    def _type(self) -> None:
        token = self._take()
        if token.kind != "name":
            raise DdlError(token.offset, f"expected a type, not {token.text}")
        kind = token.text.upper()
        if kind == "ARRAY":
            self._expect("<")
            self._type()
            self._expect(">")
        elif kind == "MAP":
            self._expect("<")
            self._type()
            self._expect(",")
            self._type()
            self._expect(">")
        elif kind == "STRUCT":
            self._struct()
        elif kind in SIZED_TYPES:
            self._sizes()
        elif kind == "INTERVAL":
            while self._next.kind == "name":
                self._take()
        elif kind not in PLAIN_TYPES:
            hint = suggestion(kind, ALL_TYPES)
            raise DdlError(token.offset, f"unknown type '{token.text}'" + (f"; {hint}" if hint else ""))

    def _struct(self) -> None:
        self._expect("<")
        while not self._accept(">"):
            self._name()
            self._accept(":")
            self._type()
            self._notes()
            if not self._accept(","):
                self._expect(">")
                return

    def _sizes(self) -> None:
        if not self._accept("("):
            return
        while self._next.kind == "number":
            self._take()
            self._accept(",")
        self._expect(")")

    def _notes(self) -> None:
        if self._accept("NOT"):
            self._expect("NULL")
        if self._accept("COMMENT"):
            token = self._take()
            if token.kind != "text":
                raise DdlError(token.offset, "COMMENT needs a text in quotes")
