"""Parsing of `--from`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from ottla.client import Start

# Kafka's tools use earliest and latest.
SYNONYMS = {"beginning": "beginning", "end": "end", "earliest": "beginning", "latest": "end"}
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
EXPECTED = (
    "expected beginning, end, an offset (42), the last N records of each partition (-10), "
    "a time (2026-01-31T12:00, @1767225600000) or an age (90s, 15m, 2h, 7d)"
)


class LastN(int):
    """Start this number of records before the end of each partition."""


def parse_start(text: str, now: datetime, option: str = "--from") -> Start | LastN:
    """Parse a starting point. Raises ValueError that lists the valid forms."""
    if text in SYNONYMS:
        return SYNONYMS[text]
    if re.fullmatch(r"\d+", text):
        return int(text)
    if re.fullmatch(r"-\d+", text):
        return LastN(text[1:])
    if re.fullmatch(r"@\d+", text):
        return datetime.fromtimestamp(int(text[1:]) / 1000, UTC)
    age = re.fullmatch(r"(\d+)([smhd])", text)
    if age is not None:
        return now - timedelta(**{UNITS[age[2]]: int(age[1])})
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise ValueError(f"{option} {text!r}: {EXPECTED}") from None
