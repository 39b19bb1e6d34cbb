"""What compaction does to records: the compiled loops where they were built, else their plain twin.

- KeyMap: the last offset of each key. `slots` bound its memory; one of them always stays free.
- map_batches: put the keys of the plain batches in a buffer into the map, from `start_offset` on and up to
  `limit` keys. Returns (status, position behind the last batch taken, the offset behind it or -1). LOOK: the
  batch there is compressed, of a transaction, a control batch or not readable, and for the caller to open;
  FULL: there is no room for the key at the returned offset; DAMAGED: it is not what was written. A batch that
  is cut short by the end of the buffer ends it, too.
- map_records: the same for the records of one opened batch: (reason, offset that found the map full or -1).
- filter_batches: copy the plain batches, without the records that the map makes obsolete, to `out`. Returns
  (status, position, position in `out`, records read, records kept, where the last batch taken began or -1).
  Batches that reach `look_offset`, and those with tombstones that have no horizon yet, are for the caller,
  too. NO_ROOM: `out` is full.
- filter_records: (reason, records kept, tombstones among them, their largest timestamp, their bytes).
- rebase_records: (reason, the records with `shift` added to their timestamp deltas).
- index_points: where sparse indexes get an entry: ([(position, last offset, largest timestamp so far, offset
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
