"""Reading transaction markers from control batches."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from ottla.records.batch import BatchHeader
from ottla.storage.files import Bytes

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
ABORT = 0
COMMIT = 1


class TxnMarker(NamedTuple):
    aborted: bool
    coordinator_epoch: int


def read_marker(batch: Bytes, position: int, header: BatchHeader) -> TxnMarker | None:
    """Return the transaction marker in a control batch, None if it contains another kind of record."""
    from ottla.records.record import iter_records

    record = next(iter(iter_records(batch, position, header)), None)
    if record is None or record.key is None or len(record.key) < _KEY.size:
        return None
    _, kind = _KEY.unpack_from(record.key)
    if kind not in (ABORT, COMMIT) or record.value is None or len(record.value) < _VALUE.size:
        return None
    _, coordinator_epoch = _VALUE.unpack_from(record.value)
    return TxnMarker(kind == ABORT, coordinator_epoch)
