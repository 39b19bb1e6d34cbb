"""What a task does on an executor: one range of offsets as record batches for Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from ottla.client import ClusterOptions, SyncCluster, shared_cluster
from ottla.client.blocking.arrow_read import OffsetRange, read_range
from ottla.client.blocking.fetch_range import FetchOptions, log_bounds
from ottla.client.errors import BrokerError, OffsetOutOfRangeError, UnknownTopicError
from ottla.protocol.message import ZERO_UUID
from pyspark_ottla.decode.formats import ValueFormats
from pyspark_ottla.reader.columns import SparkColumns
from pyspark_ottla.reader.planner import format_topic_id, report_loss
from pyspark_ottla.task_context import freeze_imports


class RangePartition(InputPartition):
    """A range that one task reads, of the topic that had this id when the range was planned."""

    def __init__(self, span: OffsetRange, topic_id: bytes | None = None) -> None:
        super().__init__(tuple(span))
        self.span = span
        self.topic_id = topic_id


class RangeReader:
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

    def read(self, partition: RangePartition) -> Iterator[pa.RecordBatch]:
        freeze_imports()
        cluster = shared_cluster(self.cluster)
        shape = SparkColumns(self.schema, self.formats)
        names = shape.read_names
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
                        yield shape.apply(rows, span.topic, span.partition)
                return
            except (OffsetOutOfRangeError, UnknownTopicError) as error:
                span = self._after_loss(cluster, span, error)

    def _was_recreated(self, cluster: SyncCluster, span: OffsetRange, topic_id: bytes | None) -> bool:
        """Whether the name stands for another topic by now: its records are not those of the range."""
        if topic_id is None:
            return False
        found = cluster.topic(span.topic).id
        if found in (topic_id, ZERO_UUID):
            return False
        report_loss(
            f"topic {span.topic!r} was deleted and made anew: its id was {format_topic_id(topic_id)} and is "
            f"{format_topic_id(found)} now; of partition {span.partition}, {_asked(span)} and are gone",
            fail=self.fail_on_data_loss,
        )
        return True

    def _after_loss(self, cluster: SyncCluster, span: OffsetRange, error: BrokerError) -> OffsetRange:
        """What of a range is still there, after the loss of the rest was reported."""
        where = f"topic {span.topic!r} partition {span.partition}"
        if isinstance(error, UnknownTopicError):
            there = cluster.existing_topics([span.topic]).get(span.topic)
            why = "the topic was deleted"
            if there is not None:
                why = f"the topic has {len(there.partitions)} partitions now, so it was deleted and made anew"
            report_loss(
                f"{where} does not exist any more; {_asked(span)}: {why}", fail=self.fail_on_data_loss
            )
            return span._replace(start=span.end)
        first, last = log_bounds(
            cluster, span.topic, span.partition, read_committed=self.fetch.read_committed
        )
        if first > span.start:
            gone = min(first, span.end) - 1
            report_loss(
                f"{where}: {_asked(span)}, but the log begins at {first}: {span.start} to {gone} are gone, "
                "removed by retention or by a deletion of records",
                fail=self.fail_on_data_loss,
            )
            return span._replace(start=min(first, span.end))
        report_loss(
            f"{where}: {_asked(span)}, but the log ends at {last}: it was truncated, "
            "by an election of a leader that had less, or the topic was made anew",
            fail=self.fail_on_data_loss,
        )
        return span._replace(end=max(span.start, min(last, span.end)))


def _asked(span: OffsetRange) -> str:
    return f"offsets {span.start} to {span.end - 1} were to be read"
