"""How much to read, and in how many pieces: arithmetic on offsets, nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heapreplace
from itertools import pairwise
from math import ceil, floor

from ottla.client.blocking.arrow_read import OffsetRange
from pyspark_ottla.reader.offset_specs import TopicPartition

Offsets = dict[TopicPartition, int]
# What Spark keeps in its checkpoint, the same as its own Kafka connector: {"topic": {"0": offset}}.
OffsetsJson = dict[str, dict[str, int]]

# In the end of a query's first batch: where the query began. Spark writes the end of a batch to its
# checkpoint before it runs it, but never the beginning of the first: after a crash in that batch it would ask
# for the initial offsets again, and "latest" would skip what the batch was to read. No topic has such a name.
INITIAL = "@initial"


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetsJson:
    found: OffsetsJson = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def from_json(parsed: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        (topic, int(partition)): offset
        for topic, rows in parsed.items()
        if topic != INITIAL
        for partition, offset in rows.items()
    }


def limited(start: Offsets, latest: Offsets, rows_max: int) -> Offsets:
    """Ends that take about `rows_max` in all, each partition in proportion to what it has.

    A partition with little is not starved: it gives at least one. `start` holds every partition of `latest`.
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


def split(ranges: Sequence[OffsetRange], pieces_min: int | None, rows_max: int | None) -> list[OffsetRange]:
    """Ranges cut so that none has more than `rows_max` offsets and there are at least `pieces_min` pieces."""
    ranges = [span for span in ranges if span.end > span.start]
    sizes = [span.end - span.start for span in ranges]
    counts = [1 if rows_max is None else ceil(size / rows_max) for size in sizes]
    wanted = min(pieces_min or 0, sum(sizes))
    # One piece more, again and again, for the range whose pieces are the largest.
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
