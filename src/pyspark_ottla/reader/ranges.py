"""How much a batch reads, and in how many Spark partitions: arithmetic on offsets."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace
from itertools import pairwise
from math import ceil, floor

from ottla.client.blocking.arrow_read import OffsetRange
from pyspark_ottla.offsets import Offsets


def limited(start: Offsets, latest: Offsets, rows_max: int) -> Offsets:
    """Return end offsets for about `rows_max` records in all, in proportion to what each partition has.

    Every partition that has records gets at least one. `start` has every partition of `latest`.
    """
    sizes = {key: end - start[key] for key, end in latest.items() if end > start[key]}
    total = sum(sizes.values())
    if total == 0:
        return dict(latest)
    ends = dict(latest)
    for key, size in sizes.items():
        share = rows_max * size / total
        ends[key] = min(latest[key], start[key] + (ceil(share) if share < 1 else floor(share)))
    return ends


def split(
    ranges: Sequence[OffsetRange], partitions_min: int | None, rows_max: int | None
) -> list[OffsetRange]:
    """Split ranges so that none has more than `rows_max` offsets and there are at least `partitions_min`."""
    ranges = [span for span in ranges if span.end > span.start]
    sizes = [span.end - span.start for span in ranges]
    counts = [1 if rows_max is None else ceil(size / rows_max) for size in sizes]
    wanted = min(partitions_min or 0, sum(sizes))
    # Repeatedly add a piece to the range whose pieces are the largest.
    heap = [(-size / count, at) for at, (size, count) in enumerate(zip(sizes, counts, strict=True))]
    heapify(heap)
    for _ in range(wanted - sum(counts)):
        at = heap[0][1]
        counts[at] += 1
        heapreplace(heap, (-sizes[at] / counts[at], at))
    return [piece for span, count in zip(ranges, counts, strict=True) for piece in _cut(span, count)]


def _cut(span: OffsetRange, pieces: int) -> list[OffsetRange]:
    size = span.end - span.start
    edges = [span.start + size * number // pieces for number in range(pieces + 1)]
    return [OffsetRange(span.topic, span.partition, first, last) for first, last in pairwise(edges)]
