"""Records as JSON lines: what `consume --json` writes and `produce --format json` reads."""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

from ottla.client import ConsumedRecord


class RecordLine(NamedTuple):
    """A record given as JSON; None for fields that are not set."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None
    timestamp_ms: int | None


def _put(document: dict[str, Any], name: str, content: bytes | None) -> None:
    """Add a value as text, or as base64 under NAME_base64 if it is not UTF-8."""
    if content is None:
        document[name] = None
        return
    try:
        document[name] = content.decode("utf-8")
    except UnicodeDecodeError:
        document[f"{name}_base64"] = base64.b64encode(content).decode("ascii")


def record_to_json(record: ConsumedRecord) -> str:
    document: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
    }
    _put(document, "key", record.key)
    _put(document, "value", record.value)
    headers = []
    for name, content in record.headers:
        header: dict[str, Any] = {"name": name}
        _put(header, "value", content)
        headers.append(header)
    document["headers"] = headers
    return json.dumps(document, ensure_ascii=False)


def _get(document: dict[str, Any], name: str) -> bytes | None:
    encoded = document.get(f"{name}_base64")
    if encoded is not None:
        return base64.b64decode(encoded, validate=True)
    content = document.get(name)
    if content is None:
        return None
    # Other JSON values are kept as JSON: {"value": {"a": 1}} needs no quoting.
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return text.encode("utf-8")


def record_from_json(line: bytes) -> RecordLine:
    """Parse a JSON line. Raises ValueError."""
    document = json.loads(line)
    if not isinstance(document, dict) or not {"value", "value_base64"} & set(document):
        raise ValueError('expected an object with "value", e.g. {"key": "k", "value": "v"}')
    headers = document.get("headers") or []
    if isinstance(headers, dict):
        headers = [{"name": name, "value": content} for name, content in headers.items()]
    if not isinstance(headers, list) or not all(
        isinstance(h, dict) and isinstance(h.get("name"), str) for h in headers
    ):
        raise ValueError('"headers" must be an object, or a list of {"name": ..., "value": ...}')
    numbers: list[int | None] = []
    for name in ("partition", "timestamp_ms"):
        number = document.get(name)
        if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 0):
            raise ValueError(f'"{name}" must be a non-negative number, not {number!r}')
        numbers.append(number)
    return RecordLine(
        _get(document, "key"),
        _get(document, "value"),
        tuple((header["name"], _get(header, "value")) for header in headers),
        numbers[0],
        numbers[1],
    )
