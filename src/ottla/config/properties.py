"""Parser for Java's .properties syntax, the format of Kafka's server.properties.

A key ends at the first unescaped `=`, `:` or blank. A line that begins with `#` or `!` is a comment. A
backslash at the end of a line continues it; elsewhere it escapes the next character.
"""

from __future__ import annotations

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"


class PropertiesError(ValueError):
    """A line with a syntax error."""


def parse_properties(text: str) -> dict[str, str]:
    """Return the keys and values; the last occurrence of a key wins."""
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key_end, value_start = _separator(line)
        key = _unescape(line[:key_end], number)
        found[key] = _unescape(line[value_start:], number)
    return found


def _logical_lines(text: str) -> list[tuple[int, str]]:
    lines: list[tuple[int, str]] = []
    pending: str | None = None
    first_number = 0
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = raw.lstrip(_BLANKS)
        if pending is None:
            if not line or line[0] in "#!":
                continue
            first_number = number
            pending = ""
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        lines.append((first_number, pending + line))
        pending = None
    if pending:
        lines.append((first_number, pending))
    return lines


def _separator(line: str) -> tuple[int, int]:
    """Where the key ends and where the value begins."""
    pos = 0
    while pos < len(line) and line[pos] not in "=:" + _BLANKS:
        pos += 2 if line[pos] == "\\" else 1
    key_end = min(pos, len(line))
    pos = key_end
    while pos < len(line) and line[pos] in _BLANKS:
        pos += 1
    if pos < len(line) and line[pos] in "=:":
        pos += 1
        while pos < len(line) and line[pos] in _BLANKS:
            pos += 1
    return key_end, pos


def _unescape(text: str, line_number: int) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    pos = 0
    while pos < len(text):
        char = text[pos]
        pos += 1
        if char != "\\" or pos == len(text):
            parts.append(char if char != "\\" else "")
            continue
        escaped = text[pos]
        pos += 1
        if escaped == "u":
            digits = text[pos : pos + 4]
            pos += 4
            try:
                if len(digits) != 4 or not digits.isalnum():
                    raise ValueError
                parts.append(chr(int(digits, 16)))
            except ValueError:
                raise PropertiesError(
                    f"line {line_number}: \\u{digits} is not four hexadecimal digits"
                ) from None
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
    return "".join(parts)
