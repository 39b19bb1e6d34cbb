"""Parsing of option values: numbers, flags, choices, durations, JSON.

Every function raises ValueError with the name of the option, its value and what is expected. `options` are
keyed by lower-case name, because Spark's option names are case-insensitive; `name` is the name as documented.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_UNITS_MS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}


def whole_number(name: str, value: str, at_least: int = 0) -> int:
    try:
        number = int(value.strip())
    except ValueError:
        number = at_least - 1
    if number < at_least:
        expected = "a positive number" if at_least == 1 else f"a whole number of {at_least} or more"
        raise ValueError(f"option {name!r} is {value!r}: expected {expected}")
    return number


def positive_number(options: Mapping[str, str], name: str) -> int | None:
    """Return the value of an optional option."""
    value = options.get(name.lower())
    return None if value is None else whole_number(name, value, at_least=1)


def true_or_false(name: str, value: str) -> bool:
    text = value.strip().lower()
    if text not in ("true", "false"):
        raise ValueError(f"option {name!r} is {value!r}: expected true or false")
    return text == "true"


def flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = options.get(name.lower())
    return default if value is None else true_or_false(name, value)


def one_of(options: Mapping[str, str], name: str, choices: Sequence[str], default: str) -> str:
    value = options.get(name.lower(), default).strip().lower()
    if value not in choices:
        raise ValueError(f"option {name!r} is {value!r}: expected {', '.join(choices[:-1])} or {choices[-1]}")
    return value


def duration_ms(name: str, text: str) -> int:
    """Parse a duration as Spark's options have them: 15m, 30s, 500ms; a plain number is seconds."""
    plain = text.strip()
    millis = int(plain) * 1000 if plain.isascii() and plain.isdigit() else parse_duration_ms(text)
    if millis is None:
        raise ValueError(f"option {name!r} is {text!r}: expected a duration such as 15m, 30s or 500ms")
    return millis


def parse_duration_ms(text: str) -> int | None:
    """Parse '10 minutes', '1 hour 30 minutes' or '500ms'; None if the text is not a duration."""
    total, rest = 0, text.strip().lower()
    if not rest:
        return None
    while rest:
        found = re.match(r"(\d+)\s*([a-z]+)\s*", rest)
        if found is None or found[2] not in _UNITS_MS:
            return None
        total += int(found[1]) * _UNITS_MS[found[2]]
        rest = rest[found.end() :]
    return total


def json_object(name: str, text: str, expected: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"option {name!r} is {text!r}: {expected} ({error})") from None
    if not isinstance(parsed, dict):
        raise ValueError(f"option {name!r} is {text!r}: {expected}")
    return parsed


def is_whole(value: object) -> bool:
    """Return whether a JSON value is an integer; bool is a subclass of int in Python."""
    return isinstance(value, int) and not isinstance(value, bool)


def write_identity(options: Mapping[str, str]) -> tuple[str, int] | None:
    """Return txnAppId and txnVersion, which make a batch write idempotent; None if they are not set."""
    application, version = options.get("txnappid"), options.get("txnversion")
    if application is None and version is None:
        return None
    if not application or version is None:
        raise ValueError("options 'txnAppId' and 'txnVersion': set both or neither")
    return application, whole_number("txnVersion", version)
