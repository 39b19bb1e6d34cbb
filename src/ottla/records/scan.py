"""Scans of the batches of a segment: compiled if available, otherwise in pure Python.

Both read whole batches from `pos` on, and stop before the first one that is not complete in the buffer
(SCANNED) or cannot be a batch here (BROKEN).

- check_batches: verify checksums, and that offsets continue. Returns (status, position, offset after the last
  consumed batch, number of them). GAP: offsets are missing before the batch, and it does not lie below
  `gaps_below`; OTHER_EPOCH: its leader epoch is not `epoch`. The caller decides about such a batch.
- producer_batches: find the batches that determine the producer state: of each producer the last five, the
  first of each transaction, and all markers. Returns (status, their positions, position, next offset).
"""

from __future__ import annotations

import os

from ottla.records._pure_scan import BROKEN, GAP, OTHER_EPOCH, SCANNED

if os.environ.get("OTTLA_PURE") != "1":
    try:
        from ottla.records._kernel import check_batches, producer_batches
    except ImportError:
        from ottla.records._pure_scan import check_batches, producer_batches
else:
    from ottla.records._pure_scan import check_batches, producer_batches

__all__ = ["BROKEN", "GAP", "OTHER_EPOCH", "SCANNED", "check_batches", "producer_batches"]
