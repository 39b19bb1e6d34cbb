"""The kernel in use: compiled `_kernel` where it was built, else its plain twin `_pure`.

OTTLA_PURE=1 in the environment forces the plain one. `COMPILED` says which it is; what is too slow in plain
Python asks for it (see `validate`). The functions, the same in both:

- walk: check the records of one uncompressed section. Returns (reason, index of the faulty record or -1,
  min timestamp, max timestamp, index of the max, null keys, timestamps out of range, record errors or None),
  a record error being (index, kind, timestamp), and there are at most `reasons.RECORD_ERRORS_MAX` of them.
  Offset deltas must be 0, 1, 2... Timestamps must lie in [low_ms, high_ms] unless they are -1, "none".
- quick_check: the header of a produced batch in which nothing is wrong or unusual, None to look closer.
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
