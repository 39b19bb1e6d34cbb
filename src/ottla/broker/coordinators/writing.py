"""Decided records on their way into the log: what one turn of the loop has decided is written together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ottla.records.build import build_batch

# Of a record around its key and value, at the most; and of the header of a batch.
RECORD_OVERHEAD_BYTES = 30
HEADER_BYTES = 61

Producer = tuple[int, int]
Encode = Callable[[Any], tuple[bytes, "bytes | None"]]


class Ticket:
    """One request: how to refuse it, and, while it waits, who waits for its answer."""

    __slots__ = ("future", "refuse")

    def __init__(self, refuse: Callable[[int], Any]) -> None:
        self.refuse = refuse
        self.future: Any = None


class Turn:
    """What was decided in one turn: records, and what is given when all of it is committed: replies, and
    the markers of ended transactions.

    `end_offset` is where the log ended when the records were in it, -1 before that.
    """

    __slots__ = ("deadline_ms", "end_offset", "markers", "parts", "replies")

    def __init__(self, deadline_ms: int) -> None:
        self.parts: deque[tuple[Producer | None, list[Any]]] = deque()
        self.replies: list[tuple[Ticket, Any]] = []
        self.markers: list[Any] = []
        self.end_offset = -1
        self.deadline_ms = deadline_ms

    def add(self, records: list[Any], producer: Producer | None) -> None:
        if self.parts and self.parts[-1][0] == producer:
            self.parts[-1][1].extend(records)
        else:
            self.parts.append((producer, list(records)))


def build_batches(
    records: Iterable[Any],
    producer: Producer | None,
    encode: Encode,
    now_ms: int,
    bytes_max: int,
    codec: int = 0,
) -> Iterator[bytearray]:
    """The records as batches, of which none is larger than `bytes_max` unless a single record is."""
    rows: list[tuple[int, bytes, bytes | None, tuple[()]]] = []
    size = HEADER_BYTES
    for record in records:
        key, value = encode(record)
        nbytes = len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES
        if rows and size + nbytes > bytes_max:
            yield _batch(rows, producer, codec)
            rows, size = [], HEADER_BYTES
        rows.append((now_ms, key, value, ()))
        size += nbytes
    if rows:
        yield _batch(rows, producer, codec)


def _batch(rows: list[Any], producer: Producer | None, codec: int) -> bytearray:
    if producer is None:
        return build_batch(rows, codec=codec)
    return build_batch(
        rows, codec=codec, producer_id=producer[0], producer_epoch=producer[1], transactional=True
    )
