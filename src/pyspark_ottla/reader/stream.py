"""Streaming queries: `spark.readStream.format("ottla")`.

Spark creates this reader in several processes: the one that plans keeps its reader for the life of the query,
each task gets a copy.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from ottla.client import EARLIEST, LATEST
from ottla.client.blocking.arrow_read import OffsetRange
from pyspark_ottla.offsets import INITIAL, Offsets, TopicPartition, from_json, to_json
from pyspark_ottla.option_values import duration_ms, positive_number
from pyspark_ottla.reader.data_loss import format_partitions, format_topic_id
from pyspark_ottla.reader.group_commit import METADATA_OPTION, GroupCommitter, commit_group_id
from pyspark_ottla.reader.offset_specs import ending_offsets, starting_offsets
from pyspark_ottla.reader.options import source_options
from pyspark_ottla.reader.planner import Planner
from pyspark_ottla.reader.range_reader import RangePartition, RangeReader
from pyspark_ottla.reader.ranges import limited, split


class OttlaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches. The checkpoint has the same offsets as with Spark's Kafka connector."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = source_options(options, streaming=True)
        self._start = starting_offsets(options, streaming=True)
        ending_offsets(options, streaming=True)
        self._rows_max = positive_number(options, "maxOffsetsPerTrigger")
        self._rows_min = positive_number(options, "minOffsetsPerTrigger")
        if self._rows_max is not None and self._rows_min is not None and self._rows_min > self._rows_max:
            raise ValueError(
                f"option 'minOffsetsPerTrigger' is {self._rows_min}, "
                f"more than the {self._rows_max} of maxOffsetsPerTrigger"
            )
        self._delay_max_ms = duration_ms("maxTriggerDelay", options.get("maxtriggerdelay", "15m"))
        self._range_reader = RangeReader(options, self._options, schema)
        self._planner = Planner(self._options)
        self._group_committer = GroupCommitter(
            self._options.cluster,
            commit_group_id(options, streaming=True),
            options.get(METADATA_OPTION.lower(), ""),
        )
        self._topic_ids: dict[str, bytes] = {}
        # Offsets up to which topics were read before they were recreated; cleared after the next batch is
        # planned.
        self._recreated: Offsets = {}
        self._recreated_planned = False
        self._initial: Offsets | None = None
        self._latest: Offsets | None = None
        self._available_now: Offsets | None = None
        # minOffsetsPerTrigger does not delay the first batch: the query may have been down for long.
        self._triggered_at_s = float("-inf")

    # Offsets.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        if self._initial is None:
            partitions = self._planner.partitions()
            self._planner.check_exist(partitions)
            self._topic_ids |= self._planner.topic_ids
            found = self._planner.resolve(self._start, partitions)
            if self._start.offsets is not None or self._start.from_group:
                self._check_initial(found)
            self._initial = found
        return to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._rows_max is not None:
            return ReadMaxRows(self._rows_max)
        if self._rows_min is not None:
            return ReadMinRows(self._rows_min)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        begun = from_json(start)
        # Spark calls this when everything before `start` is finished, also at the end of
        # Trigger.AvailableNow. It calls `commit` one batch later, and never for the last batch.
        self._group_committer.commit(begun)
        latest = self._latest_now(begun)
        begun = self._rebased(begun)
        begun = begun | self._first_offsets([key for key in latest if key not in begun])
        if not isinstance(limit, ReadAllAvailable):
            if self._must_wait(begun, latest):
                return start
            rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else self._rows_max
            if rows_max is not None:
                latest = limited(begun, latest, rows_max)
        self._triggered_at_s = time.monotonic()
        first = start == self._initial_json()
        if latest == from_json(start) and not first:
            return start  # the identical object: Spark compares the JSON text to detect new data
        found: dict[str, Any] = to_json(latest)
        if first:
            found[INITIAL] = start
        return found

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._available_now = self._planner.latest(self._planner.partitions())
        self._topic_ids |= self._planner.topic_ids

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return None if self._latest is None else to_json(self._latest)

    def _initial_json(self) -> dict[str, Any] | None:
        return None if self._initial is None else to_json(self._initial)

    def _latest_now(self, begun: Offsets) -> Offsets:
        latest = self._available_now
        if latest is None:
            partitions = self._planner.partitions()
            self._detect_recreated_topics(begun)
            latest = self._planner.latest(partitions)
        self._planner.report_deleted(begun, latest)
        self._latest = latest
        return dict(latest)

    def _detect_recreated_topics(self, begun: Offsets) -> None:
        """Compare topic ids: a recreated topic has the name of the old one but other records."""
        if self._recreated_planned:
            self._recreated, self._recreated_planned = {}, False
        for topic, topic_id in self._planner.topic_ids.items():
            known = self._topic_ids.get(topic)
            self._topic_ids[topic] = topic_id
            read = {key: offset for key, offset in begun.items() if key[0] == topic}
            if known is None or known == topic_id or not read:
                continue
            ends = ", ".join(
                f"{format_partitions([key])} up to offset {offset}"
                for key, offset in sorted(read.items())[:5]
            )
            self._planner.report_loss(
                f"topic {topic!r} was deleted and recreated: its id was {format_topic_id(known)} and is now "
                f"{format_topic_id(topic_id)}; the old topic was read in {ends}, its later records are gone"
            )
            self._recreated |= read

    def _rebased(self, begun: Offsets) -> Offsets:
        """Start recreated topics at their earliest offset, if the query is to continue."""
        if not self._recreated:
            return begun
        latest = self._latest or {}
        existing = [key for key in self._recreated if key in begun and key in latest]
        return begun | self._planner.earliest(existing)

    def _first_offsets(self, new: list[TopicPartition]) -> Offsets:
        """Return the start of partitions that were added after the query started: their earliest offset."""
        return self._planner.earliest(new) if new else {}

    def _must_wait(self, begun: Offsets, latest: Offsets) -> bool:
        if self._rows_min is None or self._available_now is not None:
            return False
        rows = sum(max(0, end - begun[key]) for key, end in latest.items())
        waited_ms = (time.monotonic() - self._triggered_at_s) * 1000
        return rows < self._rows_min and waited_ms < self._delay_max_ms

    def _check_initial(self, found: Offsets) -> None:
        """Report starting offsets that are out of range, and move them into it."""
        given = self._start.offsets
        explicit = {
            key: offset
            for key, offset in found.items()
            if given is None or given[key] not in (EARLIEST, LATEST)
        }
        origin = f"group {self._options.group_id!r}" if given is None else f"option {self._start.option!r}"
        first, last = self._planner.earliest(list(explicit)), self._planner.latest(list(explicit))
        for key, offset in explicit.items():
            if not first[key] <= offset <= last[key]:
                self._planner.report_loss(
                    f"{origin}: offset {offset} of {format_partitions([key])} is out of range, "
                    f"it has offsets {first[key]} to {last[key]}"
                )
                found[key] = min(max(offset, first[key]), last[key])

    # Partitions.

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        # A first batch that is repeated starts where it did before, whatever the initial offsets are now.
        begun = from_json(end[INITIAL] if INITIAL in end and INITIAL not in start else start)
        until = from_json(end)
        first = self._first_offsets([key for key in until if key not in begun])
        for key, offset in first.items():
            if offset > 0:
                self._planner.report_loss(
                    f"{format_partitions([key])} is new to the query and starts at offset {offset}: "
                    "earlier records are gone"
                )
        begun = self._rebased(begun) | first
        self._recreated_planned = bool(self._recreated)
        self._planner.report_deleted(begun, until)
        for key, last in until.items():
            if last < begun[key]:
                self._planner.report_loss(
                    f"{format_partitions([key])} was read up to offset {begun[key]} and now ends at offset "
                    f"{last}: it was truncated, or its topic was deleted and recreated"
                )
        ranges = [OffsetRange(*key, begun[key], last) for key, last in sorted(until.items())]
        pieces = split(ranges, self._options.partitions_min, self._options.partition_rows_max)
        return [RangePartition(span, self._topic_ids.get(span.topic)) for span in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, RangePartition):
            yield from self._range_reader.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Record progress in the group; Spark itself resumes from its checkpoint."""
        self._group_committer.commit(from_json(end))
