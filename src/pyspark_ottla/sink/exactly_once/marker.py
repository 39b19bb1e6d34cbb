"""The record that decides on a batch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from ottla.client import TransactionHandle

FORMAT = 1
ID_PREFIX = "ottla-spark/"


class Marker(NamedTuple):
    """Batch `batch` of a query is what these transactions hold; `done` when they are all committed."""

    batch: int
    winners: tuple[TransactionHandle, ...]
    done: bool = False

    def encode(self) -> bytes:
        # They begin alike, and there may be thousands.
        rows = [
            [winner.transactional_id.removeprefix(ID_PREFIX), *winner[1:4], int(winner.waits)]
            for winner in self.winners
        ]
        fields = {"format": FORMAT, "batch": self.batch, "done": self.done, "transactions": rows}
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Marker:
        """Raises ValueError for what a later version of this sink may have written."""
        fields = json.loads(data)
        if fields.get("format") != FORMAT:
            raise ValueError(f"a commit record of format {fields.get('format')!r}: a newer version wrote it")
        winners = tuple(
            TransactionHandle(ID_PREFIX + name, producer_id, epoch, version, bool(waits))
            for name, producer_id, epoch, version, waits in fields["transactions"]
        )
        return cls(fields["batch"], winners, fields["done"])


def transaction_prefix(key: str, run: str | None = None) -> str:
    """What all transactional ids of a query, or of one run of it, begin with."""
    return f"{ID_PREFIX}{key}/" if run is None else f"{ID_PREFIX}{key}/{run}/"


def not_in_marker(handles: Sequence[TransactionHandle], marker: Marker | None) -> list[TransactionHandle]:
    """Those that the marker does not name; ids are used again, so the whole handle counts."""
    named = {} if marker is None else dict.fromkeys(marker.winners)
    return [handle for handle in handles if handle not in named]
