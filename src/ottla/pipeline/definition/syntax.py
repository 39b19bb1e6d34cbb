"""The syntax of values in the file: names, durations, references to code, URLs."""

from __future__ import annotations

import re
from typing import NamedTuple

from pyspark_ottla.option_values import parse_duration_ms

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
DURATION_HELP = "expected a duration such as '30 seconds', '10 minutes', '500ms'"


def spark_duration(text: str) -> str:
    """Return a duration as a Spark interval."""
    millis = parse_duration_ms(text)
    assert millis is not None, text
    return f"{millis} milliseconds"


class CodeReference(NamedTuple):
    """A function or class: `module:name` or `file.py:name`."""

    module: str
    name: str

    @property
    def is_file(self) -> bool:
        return self.module.endswith(".py")


def parse_code_reference(text: str) -> CodeReference | None:
    module, separator, name = text.rpartition(":")
    if not separator or not module.strip() or not IDENTIFIER.fullmatch(name.strip()):
        return None
    reference = CodeReference(module.strip(), name.strip())
    parts = reference.module.split(".")
    if not reference.is_file and not all(IDENTIFIER.fullmatch(part) for part in parts):
        return None
    return reference


def is_remote(path: str) -> bool:
    """Return whether a path is a URL (s3://..., hdfs://..., file:/...) and not a local path."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", path) is not None
