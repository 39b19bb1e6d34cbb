"""The record kernel: the compiled `_kernel` if available, otherwise `_pure`.

OTTLA_PURE=1 in the environment selects the pure one. `COMPILED` says which is used; `validate` skips what
would be too slow in pure Python. The functions of both:

- walk: check the records of one uncompressed section. Returns (fault, index of the faulty record or -1,
  min timestamp, max timestamp, index of the max, null keys, timestamps out of range, record errors or None),
  where a record error is (index, kind, timestamp), and there are at most `faults.RECORD_ERRORS_MAX` of them.
  Offset deltas must be 0, 1, 2... Timestamps must lie in [low_ms, high_ms] unless they are -1, "none".
- quick_check: the header of a produced batch that is valid and ordinary, None if it needs the full checks.
- split and pack: records as Python tuples from and to the wire.
- measure, decode and encode: records as Arrow column buffers from and to the wire.
"""

from __future__ import annotations

import os

COMPILED = False

if os.environ.get("OTTLA_PURE") != "1":
    try:
        from ottla.records._kernel import decode, encode, measure, pack, quick_check, split, walk

        COMPILED = True
    except ImportError:
        from ottla.records._pure import decode, encode, measure, pack, quick_check, split, walk
else:
    from ottla.records._pure import decode, encode, measure, pack, quick_check, split, walk

__all__ = ["COMPILED", "decode", "encode", "measure", "pack", "quick_check", "split", "walk"]
