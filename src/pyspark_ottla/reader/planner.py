"""What a query on the driver asks the cluster: which partitions there are, and the offsets of places."""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping
from typing import NamedTuple

from ottla.client import ClusterOptions, SyncCluster, shared_cluster
from ottla.client.blocking.groups import SyncGroup
from ottla.protocol.message import ZERO_UUID
from pyspark_ottla.client_options import (
    cluster_options,
    fetch_options,
    true_or_false,
    whole_number,
)
from pyspark_ottla.reader.offset_specs import (
    EARLIEST,
    LATEST,
    OffsetSpec,
    TopicPartition,
    TopicSelection,
    by_group_strategy,
    by_timestamp_strategy,
    group_id_of,
    topic_selection,
)
from pyspark_ottla.reader.ranges import Offsets

log = logging.getLogger("pyspark_ottla")


class DataLoss(Exception):
    """Records that a query was to read are not there any more, and `failOnDataLoss` is true."""


class SourceOptions(NamedTuple):
    """The options that batch and streaming queries share, checked."""

    cluster: ClusterOptions
    topics: TopicSelection
    by_timestamp_strategy: str
    fail_on_data_loss: bool
    pieces_min: int | None
    piece_rows_max: int | None
    read_committed: bool
    group_id: str
    by_group_strategy: int | None


def source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Raises ValueError."""
    return SourceOptions(
        cluster=cluster_options(options),
        topics=topic_selection(options),
        by_timestamp_strategy=by_timestamp_strategy(options),
        fail_on_data_loss=true_or_false("failOnDataLoss", options.get("failondataloss", "true")),
        pieces_min=_positive(options, "minPartitions"),
        piece_rows_max=_positive(options, "maxRecordsPerPartition"),
        read_committed=fetch_options(options).read_committed,
        group_id=group_id_of(options),
        by_group_strategy=by_group_strategy(options, streaming=streaming),
    )


def _positive(options: Mapping[str, str], name: str) -> int | None:
    value = options.get(name.lower())
    return None if value is None else whole_number(name, value, at_least=1)


class Planner:
    """Answers for the partitions that the options select."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        # By name, as of the last look at the partitions; empty where brokers have no ids of topics.
        self.topic_ids: dict[str, bytes] = {}
        self.partition_counts: dict[str, int] = {}

    @property
    def cluster(self) -> SyncCluster:
        return shared_cluster(self.options.cluster)

    def partitions(self) -> list[TopicPartition]:
        """What there is now; topics are asked for again, so that new partitions are seen."""
        topics = self.options.topics
        if topics.pattern is not None:
            names = self.cluster.topics_matching(topics.pattern)
        elif topics.names:
            names = list(topics.names)
        else:
            names = list(dict.fromkeys(topic for topic, _ in topics.assigned))
        infos = self.cluster.existing_topics(names)
        self.topic_ids = {name: info.id for name, info in infos.items() if info.id != ZERO_UUID}
        self.partition_counts = {name: len(info.partitions) for name, info in infos.items()}
        if topics.assigned:
            return [key for key in topics.assigned if key[0] in infos and key[1] in infos[key[0]].partitions]
        return [(name, partition) for name, info in infos.items() for partition in sorted(info.partitions)]

    def report_deleted(self, begun: Offsets, until: Offsets) -> None:
        """Partitions that the query has read from, and that are not there any more."""
        for key in begun:
            if key in until:
                continue
            count = self.partition_counts.get(key[0])
            why = "its topic was deleted"
            if count is not None:
                why = f"its topic has {count} partitions now, so it was deleted and made anew"
            self.report_loss(
                f"{format_partitions([key])} was read up to offset {begun[key]} and is gone: {why}"
            )

    def check_exist(self, partitions: list[TopicPartition]) -> None:
        """Raise ValueError if something that the options name is missing: a typo must not wait forever."""
        topics = self.options.topics
        there = {topic for topic, _ in partitions}
        missing = [name for name in topics.names if name not in there]
        missing += [format_partitions([key]) for key in topics.assigned if key not in partitions]
        if missing:
            raise ValueError(f"there is no topic or partition {', '.join(missing)}: create it first")

    def earliest(self, partitions: list[TopicPartition]) -> Offsets:
        return self._list(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: list[TopicPartition]) -> Offsets:
        """The end of what can be read: under read_committed, of what is decided."""
        return self._list(dict.fromkeys(partitions, LATEST))

    def resolve(
        self, place: OffsetSpec, partitions: list[TopicPartition], *, ending: bool = False
    ) -> Offsets:
        """The offset of a place in each partition. Raises ValueError where the place says too little."""
        if place.everywhere is not None:
            return self._list(dict.fromkeys(partitions, place.everywhere))
        if place.from_group:
            return self._of_group(place, partitions)
        if place.timestamp_ms is not None:
            return self._at_times(place, dict.fromkeys(partitions, place.timestamp_ms), ending)
        if place.timestamps_ms is not None:
            self._check_complete(place, place.timestamps_ms, partitions)
            return self._at_times(place, {key: place.timestamps_ms[key] for key in partitions}, ending)
        assert place.offsets is not None, "a place is nowhere"
        self._check_complete(place, place.offsets, partitions)
        symbolic = {key: place.offsets[key] for key in partitions if place.offsets[key] < 0}
        return {key: place.offsets[key] for key in partitions} | self._list(symbolic)

    def _of_group(self, place: OffsetSpec, partitions: list[TopicPartition]) -> Offsets:
        group_id, otherwise = self.options.group_id, self.options.by_group_strategy
        committed = SyncGroup(self.cluster, group_id).committed(partitions)
        found = {key: committed[key].offset for key in partitions if key in committed}
        missing = [key for key in partitions if key not in found]
        if missing and otherwise is None:
            raise ValueError(
                f"option {place.option!r}: group {group_id!r} has no committed offset for "
                f"{format_partitions(missing)}; set startingOffsetsByGroupStrategy to earliest or latest"
            )
        return found | (self._list(dict.fromkeys(missing, otherwise)) if otherwise is not None else {})

    def _check_complete(
        self, place: OffsetSpec, given: Mapping[TopicPartition, int], partitions: list[TopicPartition]
    ) -> None:
        missing = [key for key in partitions if key not in given]
        unknown = [key for key in given if key not in partitions]
        if missing or unknown:
            problem = (
                f"it leaves out {format_partitions(missing)}"
                if missing
                else f"there is no {format_partitions(unknown)}"
            )
            raise ValueError(
                f"option {place.option!r} must name every partition that is read and no other: {problem}"
            )

    def _at_times(self, place: OffsetSpec, wanted: dict[TopicPartition, int], ending: bool) -> Offsets:
        found = self._list(wanted)
        too_late = [key for key, offset in found.items() if offset < 0]
        if too_late and not ending and self.options.by_timestamp_strategy == "error":
            key = too_late[0]
            raise ValueError(
                f"option {place.option!r}: {format_partitions([key])} has no record at or after timestamp "
                f"{wanted[key]}; set startingOffsetsByTimestampStrategy to latest to start at its end"
            )
        return found | self.latest(too_late)

    def _list(self, wanted: dict[TopicPartition, int]) -> Offsets:
        if not wanted:
            return {}
        answers = self.cluster.list_offsets(wanted, read_committed=self.options.read_committed)
        return {key: at.offset for key, at in answers.items()}

    def report_loss(self, what: str) -> None:
        """Raise DataLoss, or only say it where the query is told to go on."""
        report_loss(what, fail=self.options.fail_on_data_loss)


def report_loss(what: str, *, fail: bool) -> None:
    if fail:
        raise DataLoss(
            f"{what}. The query cannot have these records; set the option failOnDataLoss to false to go on "
            "with what is there"
        )
    log.warning("%s; going on, because failOnDataLoss is false", what)


def format_partitions(partitions: list[TopicPartition]) -> str:
    """Partitions for people, a few of them."""
    names = [f"{topic}-{partition}" for topic, partition in partitions[:5]]
    more = f" and {len(partitions) - 5} more" if len(partitions) > 5 else ""
    return ", ".join(names) + more


def format_topic_id(topic_id: bytes) -> str:
    """The id of a topic as Kafka's tools write it."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
