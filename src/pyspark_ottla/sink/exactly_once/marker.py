"""The commit marker: the record that commits a batch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from ottla.client import TransactionHandle

FORMAT = 1
ID_PREFIX = "ottla-spark/"


class Marker(NamedTuple):
    """Batch `batch` of a query consists of these transactions; `done` when all of them are committed."""

    batch: int
    winners: tuple[TransactionHandle, ...]
    done: bool = False

    def encode(self) -> bytes:
        # Without the common prefix: there may be thousands of ids.
        rows = [
            [winner.transactional_id.removeprefix(ID_PREFIX), *winner[1:4], int(winner.waits)]
            for winner in self.winners
        ]
        fields = {"format": FORMAT, "batch": self.batch, "done": self.done, "transactions": rows}
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Marker:
        """Raises ValueError for a format that only later versions of this sink know."""
        fields = json.loads(data)
        if fields.get("format") != FORMAT:
            raise ValueError(
                f"commit marker of unknown format {fields.get('format')!r}: a newer version wrote it"
            )
        winners = tuple(
            TransactionHandle(ID_PREFIX + name, producer_id, epoch, version, bool(waits))
            for name, producer_id, epoch, version, waits in fields["transactions"]
        )
        return cls(fields["batch"], winners, fields["done"])


def transaction_prefix(key: str, run: str | None = None) -> str:
    """Return the prefix of all transactional ids of a query, or of one run of it."""
    return f"{ID_PREFIX}{key}/" if run is None else f"{ID_PREFIX}{key}/{run}/"


def not_in_marker(handles: Sequence[TransactionHandle], marker: Marker | None) -> list[TransactionHandle]:
    """Return the handles that are not in the marker. Ids are reused, so whole handles are compared."""
    named = {} if marker is None else dict.fromkeys(marker.winners)
    return [handle for handle in handles if handle not in named]
