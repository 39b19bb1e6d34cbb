"""The executor side of the source: a range of offsets as record batches for Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from ottla.client import SyncCluster, shared_cluster
from ottla.client.blocking.arrow_read import OffsetRange, read_range
from ottla.client.blocking.fetch_range import log_bounds
from ottla.client.errors import BrokerError, OffsetOutOfRangeError, UnknownTopicError
from ottla.protocol.message import ZERO_UUID
from pyspark_ottla.client_options import fetch_options
from pyspark_ottla.decode.formats import value_formats
from pyspark_ottla.reader.columns import SparkColumns
from pyspark_ottla.reader.data_loss import format_topic_id, report_loss
from pyspark_ottla.reader.options import SourceOptions
from pyspark_ottla.task_context import freeze_imports


class RangePartition(InputPartition):
    """A range that one task reads, and the id that its topic had when the range was planned."""

    def __init__(self, span: OffsetRange, topic_id: bytes | None = None) -> None:
        super().__init__(tuple(span))
        self.span = span
        self.topic_id = topic_id


class RangeReader:
    """Reads the ranges of one query. It is pickled to executors, so it holds plain values only."""

    def __init__(self, given: Mapping[str, str], options: SourceOptions, schema: StructType) -> None:
        self.cluster = options.cluster
        self.fetch = fetch_options(given)
        self.schema = schema
        self.formats = value_formats(given)
        self.fail_on_data_loss = options.fail_on_data_loss

    def read(self, partition: RangePartition) -> Iterator[pa.RecordBatch]:
        freeze_imports()
        cluster = shared_cluster(self.cluster)
        columns = SparkColumns(self.schema, self.formats)
        names = columns.read_names
        span = partition.span
        while span.start < span.end:
            try:
                if self._was_recreated(cluster, span, partition.topic_id):
                    return
                for rows in read_range(cluster, span, self.fetch, columns=names):
                    if self._was_recreated(cluster, span, partition.topic_id):
                        return
                    if rows.num_rows:
                        span = span._replace(start=rows.column("offset")[-1].as_py() + 1)
                        yield columns.apply(rows, span.topic, span.partition)
                return
            except (OffsetOutOfRangeError, UnknownTopicError) as error:
                span = self._remaining(cluster, span, error)

    def _was_recreated(self, cluster: SyncCluster, span: OffsetRange, topic_id: bytes | None) -> bool:
        """Return whether another topic has the name now: its records are not those of the range."""
        if topic_id is None:
            return False
        found = cluster.topic(span.topic).id
        if found in (topic_id, ZERO_UUID):
            return False
        report_loss(
            f"topic {span.topic!r} was deleted and recreated: its id was {format_topic_id(topic_id)} and is "
            f"now {format_topic_id(found)}; {_unread(span)} of partition {span.partition} are gone",
            fail=self.fail_on_data_loss,
        )
        return True

    def _remaining(self, cluster: SyncCluster, span: OffsetRange, error: BrokerError) -> OffsetRange:
        """Report the lost part of a range and return the part that still exists."""
        where = f"topic {span.topic!r} partition {span.partition}"
        if isinstance(error, UnknownTopicError):
            info = cluster.existing_topics([span.topic]).get(span.topic)
            why = "the topic was deleted"
            if info is not None:
                why = f"the topic was deleted and recreated with {len(info.partitions)} partitions"
            report_loss(
                f"{where} no longer exists: {why}; {_unread(span)} are gone", fail=self.fail_on_data_loss
            )
            return span._replace(start=span.end)
        first, last = log_bounds(
            cluster, span.topic, span.partition, read_committed=self.fetch.read_committed
        )
        if first > span.start:
            gone = min(first, span.end) - 1
            report_loss(
                f"{where}: cannot read offsets {span.start} to {gone}: the log starts at offset {first}, "
                "earlier records were removed by retention or DeleteRecords",
                fail=self.fail_on_data_loss,
            )
            return span._replace(start=min(first, span.end))
        report_loss(
            f"{where}: cannot read offsets {max(last, span.start)} to {span.end - 1}: the log ends at "
            f"offset {last}, it was truncated by an unclean leader election or the topic was recreated",
            fail=self.fail_on_data_loss,
        )
        return span._replace(end=max(span.start, min(last, span.end)))


def _unread(span: OffsetRange) -> str:
    return f"unread offsets {span.start} to {span.end - 1}"
