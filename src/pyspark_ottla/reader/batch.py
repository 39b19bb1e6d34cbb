"""Batch queries: `spark.read.format("ottla")`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ottla.client.blocking.arrow_read import OffsetRange
from pyspark_ottla.client_options import fetch_options
from pyspark_ottla.decode.formats import value_formats
from pyspark_ottla.reader.group_commit import commit_group_id
from pyspark_ottla.reader.offset_specs import check_pair, ending_offsets, starting_offsets
from pyspark_ottla.reader.planner import Planner, format_partitions, log, source_options
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
                log.warning("option %r is of no use in a batch query", name)
        self._reading = RangeReader(
            self._options.cluster,
            fetch_options(options),
            schema,
            value_formats(options),
            fail_on_data_loss=self._options.fail_on_data_loss,
        )

    def partitions(self) -> Sequence[InputPartition]:
        planner = Planner(self._options)
        there = planner.partitions()
        planner.check_exist(there)
        start = planner.resolve(self._start, there)
        end = planner.resolve(self._end, there, ending=True)
        for key in there:
            if start[key] > end[key]:
                raise ValueError(
                    f"{format_partitions([key])} would be read from {start[key]} to {end[key]}: options "
                    f"{self._start.option!r} and {self._end.option!r} say to end before the beginning"
                )
        ranges = [OffsetRange(*key, start[key], end[key]) for key in there]
        pieces = split(ranges, self._options.pieces_min, self._options.piece_rows_max)
        return [RangePartition(span, planner.topic_ids.get(span.topic)) for span in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark hands out one empty partition where the plan has none.
        if isinstance(partition, RangePartition):
            yield from self._reading.read(partition)
