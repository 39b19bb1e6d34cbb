"""Definition of configuration properties: type, default, valid values, parsing and rendering.

Definitions are text tables with one property per line, which are easy to read, and cheap to parse at start:

    name                      type     default   check      mode [ignored] | description in one sentence

`default` may be `null` (not set), `""` (empty) or `max` (the maximum of the type). `check` is `-`, `>=N`,
`A..B`, a comma-separated list of valid words, or the name of a special check. `mode` is `ro` (read-only:
needs a restart), `node` (dynamic, per broker) or `all` (dynamic, per broker or cluster-wide). `ignored` marks
a property that is accepted for compatibility with Kafka but has no effect; a test compares these marks with
the use in the code.

This package uses no regular expressions: compiling them costs more at start than parsing all of the tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

# The numbers are those that DescribeConfigs puts on the wire.
BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = range(1, 10)
KINDS = {
    "bool": BOOLEAN,
    "string": STRING,
    "int": INT,
    "short": SHORT,
    "long": LONG,
    "double": DOUBLE,
    "list": LIST,
    "class": CLASS,
    "password": PASSWORD,
}
KIND_NAMES = {code: name for name, code in KINDS.items()}

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1
LIMITS = {INT: (-(2**31), INT_MAX), SHORT: (-(2**15), 2**15 - 1), LONG: (-(2**63), LONG_MAX)}

READ_ONLY, PER_BROKER, CLUSTER_WIDE = "ro", "node", "all"


class ConfigError(ValueError):
    """An invalid configuration. The message names the property, the value and the valid values."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        super().__init__(f"{key}={value}: {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed


def is_number(text: str, digits_max: int = 20) -> bool:
    """Whether the text consists of ASCII digits (int() also accepts 1_000 and other scripts)."""
    return text.isascii() and text.isdecimal() and len(text) <= digits_max


def _throttled(value: tuple[str, ...]) -> str | None:
    pairs = [item.partition(":") for item in value]
    if value == ("*",) or all(is_number(partition) and is_number(broker) for partition, _, broker in pairs):
        return None
    return "must be * or a list of partition:broker pairs, for example 0:1,1:2"


def _gzip_level(value: int) -> str | None:
    return None if value == -1 or 1 <= value <= 9 else "must be -1 (the default of gzip) or between 1 and 9"


def _not_empty(value: object) -> str | None:
    return None if value else "must not be empty"


SPECIAL_CHECKS: dict[str, Callable[[Any], str | None]] = {
    "throttled": _throttled,
    "gzip-level": _gzip_level,
    "not-empty": _not_empty,
}


class Property:
    """One property: how to parse and render its values, and which are valid. Ignored ones are not
    `supported`."""

    __slots__ = ("choices", "default", "doc", "high", "kind", "low", "mode", "name", "special", "supported")

    def __init__(
        self,
        name: str,
        kind: int,
        *,
        default: str,
        check: str,
        mode: str,
        doc: str,
        supported: bool = True,
    ) -> None:
        self.name = name
        self.kind = kind
        self.mode = mode
        self.doc = doc
        self.supported = supported
        self.low: float | None = None
        self.high: float | None = None
        self.choices: tuple[str, ...] = ()
        self.special: Callable[[Any], str | None] | None = None
        if check == "-":
            pass
        elif check.startswith(">="):
            self.low = float(check[2:]) if kind == DOUBLE else int(check[2:])
        elif ".." in check:
            low, high = check.split("..")
            self.low, self.high = (float(low), float(high)) if kind == DOUBLE else (int(low), int(high))
        elif check in SPECIAL_CHECKS:
            self.special = SPECIAL_CHECKS[check]
        else:
            self.choices = tuple(check.split(","))
        self.default: Any = self._default(default)

    @property
    def sensitive(self) -> bool:
        return self.kind == PASSWORD

    @property
    def read_only(self) -> bool:
        return self.mode == READ_ONLY

    def _default(self, text: str) -> Any:
        if text == "null":
            return None
        if text == "max":
            return 1.7976931348623157e308 if self.kind == DOUBLE else LIMITS[self.kind][1]
        return self._read("" if text == '""' else text)

    def parse(self, text: str) -> Any:
        """Return the value of `text`, or raise ConfigError."""
        value = self._read(text)
        problem = self._problem(value)
        if problem is not None:
            raise self.error(text, problem)
        return value

    def error(self, text: str, allowed: str) -> ConfigError:
        return ConfigError(self.name, "[hidden]" if self.sensitive else text, allowed)

    def _read(self, text: str) -> Any:
        kind = self.kind
        if kind in LIMITS:
            stripped = text.strip()
            low, high = LIMITS[kind]
            digits = stripped[1:] if stripped[:1] in ("-", "+") else stripped
            if not is_number(digits) or not low <= int(stripped) <= high:
                raise self.error(text, f"must be a whole number ({KIND_NAMES[kind]}){self._range_text()}")
            return int(stripped)
        if kind == BOOLEAN:
            word = text.strip().lower()
            if word not in ("true", "false"):
                raise self.error(text, "must be true or false")
            return word == "true"
        if kind == DOUBLE:
            return self._read_double(text)
        if kind == LIST:
            stripped = text.strip()
            return tuple([item.strip() for item in stripped.split(",")]) if stripped else ()
        return text if kind == PASSWORD else text.strip()

    def _read_double(self, text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if math.isnan(number) or "_" in text:
            raise self.error(text, f"must be a number{self._range_text()}")
        return number

    def _range_text(self) -> str:
        if self.low is None:
            return ""
        return f" of at least {self.low}" if self.high is None else f" between {self.low} and {self.high}"

    def _problem(self, value: Any) -> str | None:
        too_low = self.low is not None and value < self.low
        if too_low or (self.high is not None and value > self.high):
            return f"must be{self._range_text().replace(' of', '')}"
        if self.choices:
            items = value if self.kind == LIST else (value,)
            if any(item not in self.choices for item in items):
                what = "must contain only" if self.kind == LIST else "must be one of"
                return f"{what} {', '.join(self.choices)}"
        if self.kind == LIST and len(set(value)) != len(value):
            return "must not contain an item twice"
        if self.kind == LIST and "" in value:
            return "must not contain an empty item"
        return self.special(value) if self.special is not None else None

    def show(self, value: Any) -> str | None:
        """Return the text form of `value` for files and the wire: `parse(show(v)) == v`."""
        if value is None:
            return None
        if self.kind == BOOLEAN:
            return "true" if value else "false"
        if self.kind == LIST:
            return ",".join(value)
        return str(value)


def read_table(table: str) -> dict[str, Property]:
    """Parse a table of definitions."""
    found: dict[str, Property] = {}
    for line in table.splitlines():
        head, bar, doc = line.partition("|")
        if not bar:
            assert not head.strip(), f"no description: {line}"
            continue
        name, kind, default, check, mode, *flags = head.split()
        assert name not in found, f"{name} is defined twice"
        found[name] = Property(
            name,
            KINDS[kind],
            default=default,
            check=check,
            mode=mode,
            doc=doc.strip(),
            supported="ignored" not in flags,
        )
    return found
