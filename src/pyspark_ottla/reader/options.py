"""The options that batch and streaming queries share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.client import ClusterOptions
from pyspark_ottla.client_options import cluster_options, fetch_options, group_id_of
from pyspark_ottla.option_values import flag, positive_number
from pyspark_ottla.reader.offset_specs import by_group_strategy, by_timestamp_strategy
from pyspark_ottla.reader.topic_selection import TopicSelection, topic_selection


class SourceOptions(NamedTuple):
    cluster: ClusterOptions
    topics: TopicSelection
    by_timestamp_strategy: str
    fail_on_data_loss: bool
    partitions_min: int | None
    partition_rows_max: int | None
    read_committed: bool
    group_id: str
    by_group_strategy: int | None


def source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Raises ValueError."""
    return SourceOptions(
        cluster=cluster_options(options),
        topics=topic_selection(options),
        by_timestamp_strategy=by_timestamp_strategy(options),
        fail_on_data_loss=flag(options, "failOnDataLoss", default=True),
        partitions_min=positive_number(options, "minPartitions"),
        partition_rows_max=positive_number(options, "maxRecordsPerPartition"),
        read_committed=fetch_options(options).read_committed,
        group_id=group_id_of(options),
        by_group_strategy=by_group_strategy(options, streaming=streaming),
    )
