"""What a task does on an executor: one range of offsets as record batches for Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from ottla.client.arrow_read import OffsetRange, read_range
from ottla.client.errors import BrokerError, OffsetOutOfRangeError, UnknownTopicError
from ottla.client.fetch_range import FetchOptions, log_bounds
from ottla.client.sync_cluster import ClusterOptions, SyncCluster, shared_cluster
from pyspark_ottla.columns import SparkShape
from pyspark_ottla.planning import report_loss
from pyspark_ottla.values import ValueFormats


class RangePartition(InputPartition):
    """A range that one task reads."""

    def __init__(self, span: OffsetRange) -> None:
        super().__init__(tuple(span))
        self.span = span


class RangeReading:
    """All that a task needs besides its range; goes to executors by pickle, so it holds values only."""

    def __init__(
        self,
        cluster: ClusterOptions,
        fetch: FetchOptions,
        schema: StructType,
        formats: ValueFormats,
        *,
        fail_on_data_loss: bool,
    ) -> None:
        self.cluster = cluster
        self.fetch = fetch
        self.schema = schema
        self.formats = formats
        self.fail_on_data_loss = fail_on_data_loss

    def read(self, span: OffsetRange) -> Iterator[pa.RecordBatch]:
        cluster = shared_cluster(self.cluster)
        shape = SparkShape(self.schema, self.formats)
        names = shape.read_names
        while span.start < span.end:
            try:
                for rows in read_range(cluster, span, self.fetch, columns=names):
                    if rows.num_rows:
                        span = span._replace(start=rows.column("offset")[-1].as_py() + 1)
                        yield shape.apply(rows, span.topic, span.partition)
                return
            except (OffsetOutOfRangeError, UnknownTopicError) as error:
                span = self._after_loss(cluster, span, error)

    def _after_loss(self, cluster: SyncCluster, span: OffsetRange, error: BrokerError) -> OffsetRange:
        """What of a range is still there, after the loss of the rest was reported."""
        where = f"topic {span.topic!r} partition {span.partition}"
        asked = f"offsets {span.start} to {span.end - 1} were to be read"
        if isinstance(error, UnknownTopicError):
            report_loss(f"{where} does not exist any more; {asked}", fail=self.fail_on_data_loss)
            return span._replace(start=span.end)
        first, last = log_bounds(
            cluster, span.topic, span.partition, read_committed=self.fetch.read_committed
        )
        if first > span.start:
            gone = min(first, span.end) - 1
            report_loss(
                f"{where}: {asked}, but the log begins at {first}: {span.start} to {gone} are gone",
                fail=self.fail_on_data_loss,
            )
            return span._replace(start=min(first, span.end))
        report_loss(
            f"{where}: {asked}, but the log ends at {last}: it was truncated or made anew",
            fail=self.fail_on_data_loss,
        )
        return span._replace(end=max(span.start, min(last, span.end)))
