"""Tables from compacted topics: the latest value of every key at the time of each micro-batch.

Spark plans the static side of a stream-static join once and reads the same offsets in every micro-batch, so a
table read with the source "ottla" would never change. Here the task that reads a partition looks up its end,
so every micro-batch sees the current table. A worker caches what it has read and fetches only newer records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ottla.client import shared_cluster
from ottla.client.blocking.arrow_read import OffsetRange
from ottla.client.blocking.fetch_range import log_bounds
from pyspark_ottla.client_options import cluster_options, fetch_options
from pyspark_ottla.data_source import OttlaDataSource
from pyspark_ottla.reader.batch import OttlaReader
from pyspark_ottla.reader.planner import Planner
from pyspark_ottla.reader.range_reader import RangePartition

NAME = "ottla_table"
ROWS_PER_BATCH = 10_000
# Limit of a worker's cache, over all tables; a table that does not fit is read in every batch.
CACHE_BYTES_MAX = 256 << 20


class Cached(NamedTuple):
    """The newest rows of a partition before the offset `end`."""

    # None: the brokers have no topic ids.
    topic_id: bytes | None
    end: int
    rows: pa.Table


_cache: dict[tuple[object, ...], Cached] = {}


class TableDataSource(OttlaDataSource):
    """`format("ottla_table")`, registered by the pipeline in its session."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def reader(self, schema: StructType) -> DataSourceReader:
        return TableReader(self._options(), schema)


class Share(InputPartition):
    """A share of a topic's partitions: those with number `index` modulo `total`, also if added later."""

    def __init__(self, topic: str, index: int, total: int) -> None:
        super().__init__((topic, index, total))
        self.topic, self.index, self.total = topic, index, total


class TableReader(OttlaReader):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema)
        self._given = dict(options)
        self._names = tuple(schema.names)

    def partitions(self) -> Sequence[InputPartition]:
        totals: dict[str, int] = {}
        planner = Planner(self._options)
        there = planner.partitions()
        planner.check_exist(there)
        for topic, _ in there:
            totals[topic] = totals.get(topic, 0) + 1
        return [Share(topic, index, total) for topic, total in totals.items() for index in range(total)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Share):
            return
        planner = Planner(self._options)
        for topic, number in planner.partitions():
            if topic == partition.topic and number % partition.total == partition.index:
                newest = self.newest(topic, number, planner.topic_ids.get(topic))
                yield from newest.to_batches(max_chunksize=ROWS_PER_BATCH)

    def newest(self, topic: str, partition: int, topic_id: bytes | None) -> pa.Table:
        """Return the latest record of each key in a partition."""
        first, end = log_bounds(
            shared_cluster(cluster_options(self._given)),
            topic,
            partition,
            read_committed=fetch_options(self._given).read_committed,
        )
        identity = (*sorted(self._given.items()), self._names, topic, partition)
        cached = _cache.pop(identity, None)
        if cached is not None and (cached.topic_id != topic_id or cached.end > end):
            cached = None  # the topic was recreated, or its log was truncated
        begun = first if cached is None else max(cached.end, first)
        span = OffsetRange(topic, partition, begun, end)
        pieces = [pa.Table.from_batches([rows]) for rows in super().read(RangePartition(span, topic_id))]
        if cached is not None:
            # Retention and DeleteRecords remove rows of a table too: a new worker would not read them.
            kept = cached.rows.filter(pc.greater_equal(cached.rows.column("offset"), first))
            newest = newest_per_key(pa.concat_tables([kept, *pieces])) if pieces else kept
        elif pieces:
            newest = newest_per_key(pa.concat_tables(pieces))
        else:
            return pa.table({})
        if newest.nbytes + sum(other.rows.nbytes for other in _cache.values()) <= CACHE_BYTES_MAX:
            _cache[identity] = Cached(topic_id, end, newest)
        return newest


def newest_per_key(rows: pa.Table) -> pa.Table:
    """Return the last row of each key; rows without a key or with an error are ignored."""
    wanted = pc.is_valid(rows.column("key"))
    if "error" in rows.column_names:
        wanted = pc.and_(wanted, pc.is_null(rows.column("error")))
    rows = rows.filter(wanted)
    last = rows.select(["key", "offset"]).group_by("key").aggregate([("offset", "max")])
    chosen = pc.is_in(rows.column("offset"), value_set=last.column("offset_max").combine_chunks())
    return rows.filter(chosen).combine_chunks()
