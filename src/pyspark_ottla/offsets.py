"""Offsets by partition, and their JSON form in checkpoints and progress reports.

The JSON form is that of Spark's Kafka connector: `{"topic": {"0": offset}}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TopicPartition = tuple[str, int]
Offsets = dict[TopicPartition, int]
OffsetsJson = dict[str, dict[str, int]]

# Part of the end offsets of a query's first batch: the offsets at which the query started. Spark writes the
# end of a batch to the checkpoint before it runs the batch, but never the start of the first one. After a
# crash in that batch Spark requests the initial offsets again, and "latest" would then skip the records of
# the batch. No topic can have this name.
INITIAL = "@initial"


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetsJson:
    found: OffsetsJson = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def from_json(parsed: Mapping[str, Any]) -> Offsets:
    """Convert back; entries that are not topics, such as `INITIAL`, are ignored."""
    return {
        (topic, int(partition)): int(offset)
        for topic, rows in parsed.items()
        if topic != INITIAL and isinstance(rows, Mapping)
        for partition, offset in rows.items()
    }
