"""Batch queries: `spark.read.format("ottla")`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ottla.client.blocking.arrow_read import OffsetRange
from pyspark_ottla.reader.data_loss import format_partitions, log
from pyspark_ottla.reader.group_commit import commit_group_id
from pyspark_ottla.reader.offset_specs import check_pair, ending_offsets, starting_offsets
from pyspark_ottla.reader.options import source_options
from pyspark_ottla.reader.planner import Planner
from pyspark_ottla.reader.range_reader import RangePartition, RangeReader
from pyspark_ottla.reader.ranges import split

STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")


class OttlaReader(DataSourceReader):
    """Plans on the driver, reads on executors."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = source_options(options, streaming=False)
        commit_group_id(options, streaming=False)
        self._start = starting_offsets(options, streaming=False)
        self._end = ending_offsets(options, streaming=False)
        check_pair(self._start, self._end)
        for name in STREAM_ONLY:
            if name.lower() in options:
                log.warning("option %r is ignored in a batch query", name)
        self._range_reader = RangeReader(options, self._options, schema)

    def partitions(self) -> Sequence[InputPartition]:
        planner = Planner(self._options)
        partitions = planner.partitions()
        planner.check_exist(partitions)
        start = planner.resolve(self._start, partitions)
        end = planner.resolve(self._end, partitions, ending=True)
        for key in partitions:
            if start[key] > end[key]:
                raise ValueError(
                    f"options {self._start.option!r} and {self._end.option!r}: {format_partitions([key])} "
                    f"would be read from offset {start[key]} to {end[key]}, which is before the start"
                )
        ranges = [OffsetRange(*key, start[key], end[key]) for key in partitions]
        pieces = split(ranges, self._options.partitions_min, self._options.partition_rows_max)
        return [RangePartition(span, planner.topic_ids.get(span.topic)) for span in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark passes one plain InputPartition if the plan has no partitions.
        if isinstance(partition, RangePartition):
            yield from self._range_reader.read(partition)
