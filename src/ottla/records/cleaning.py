"""The record loops of compaction: compiled if available, otherwise in pure Python.

- KeyMap: the last offset of each key. `slots` bound its memory; one of them always stays free.
- map_batches: put the keys of the plain batches in a buffer into the map, from `start_offset` on and up to
  `limit` keys. Returns (status, position after the last consumed batch, the offset after it or -1). LOOK: the
  batch there is compressed, transactional, a control batch or unreadable, and the caller has to open it;
  FULL: there is no space for the key at the returned offset; DAMAGED: the checksum does not match. An
  incomplete batch at the end of the buffer ends the loop, too.
- map_records: the same for the records of one opened batch: (fault, offset at which the map was full or -1).
- filter_batches: copy the plain batches, without the records that the map makes obsolete, to `out`. Returns
  (status, position, position in `out`, records read, records kept, start of the last consumed batch or -1).
  Batches that reach `look_offset`, and those with tombstones but no delete horizon, are left to the caller,
  too. NO_ROOM: `out` is full.
- filter_records: (fault, records kept, tombstones among them, their largest timestamp, their bytes).
- rebase_records: (fault, the records with `shift` added to their timestamp deltas).
- index_points: the entries of the sparse indexes: ([(position, last offset, largest timestamp so far, offset
  of that)], bytes since the last one, largest timestamp, its offset, last offset).
"""

from __future__ import annotations

import os

from ottla.records._pure_cleaning import ALL_DONE, DAMAGED, FULL, LOOK, NO_ROOM

if os.environ.get("OTTLA_PURE") != "1":
    try:
        from ottla.records._kernel import (
            KeyMap,
            filter_batches,
            filter_records,
            index_points,
            map_batches,
            map_records,
            rebase_records,
        )
    except ImportError:
        from ottla.records._pure_cleaning import (  # type: ignore[assignment]
            KeyMap,
            filter_batches,
            filter_records,
            index_points,
            map_batches,
            map_records,
            rebase_records,
        )
else:
    from ottla.records._pure_cleaning import (  # type: ignore[assignment]
        KeyMap,
        filter_batches,
        filter_records,
        index_points,
        map_batches,
        map_records,
        rebase_records,
    )

__all__ = [
    "ALL_DONE",
    "DAMAGED",
    "FULL",
    "LOOK",
    "NO_ROOM",
    "KeyMap",
    "filter_batches",
    "filter_records",
    "index_points",
    "map_batches",
    "map_records",
    "rebase_records",
]
