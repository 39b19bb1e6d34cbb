"""Small languages inside the file: durations, triggers, names, places of code."""

from __future__ import annotations

import re
from typing import NamedTuple

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_UNITS_MS = {
    "ms": 1,
    "millisecond": 1,
    "milliseconds": 1,
    "s": 1_000,
    "second": 1_000,
    "seconds": 1_000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "minutes": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "hours": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
    "days": 86_400_000,
}
DURATION_HELP = "expected a time such as '30 seconds', '10 minutes', '500ms'"


def duration_ms(text: str) -> int | None:
    """'10 minutes', '1 hour 30 minutes', '500ms'; None if it is none."""
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


def spark_duration(text: str) -> str:
    """The same duration as Spark's interval."""
    millis = duration_ms(text)
    assert millis is not None, text
    return f"{millis} milliseconds"


class CodeReference(NamedTuple):
    """`module:name` or `file.py:name`."""

    module: str
    name: str

    @property
    def is_file(self) -> bool:
        return self.module.endswith(".py")


def parse_code_reference(text: str) -> CodeReference | None:
    module, separator, name = text.rpartition(":")
    if not separator or not module.strip() or not IDENTIFIER.fullmatch(name.strip()):
        return None
    place = CodeReference(module.strip(), name.strip())
    if not place.is_file and not all(IDENTIFIER.fullmatch(part) for part in place.module.split(".")):
        return None
    return place


def is_remote(path: str) -> bool:
    """s3://..., hdfs://..., file:/...: not a path of this machine's file system to be made absolute."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", path) is not None
