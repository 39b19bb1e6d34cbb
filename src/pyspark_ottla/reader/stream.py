"""Streaming queries: `spark.readStream.format("ottla")`.

Spark builds this reader in several processes: the one that plans keeps its object for the life of the query,
those that read get a copy for each task.
"""

from __future__ import annotations

import re
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

from ottla.client.blocking.arrow_read import OffsetRange
from pyspark_ottla.client_options import fetch_options, whole_number
from pyspark_ottla.decode.formats import value_formats
from pyspark_ottla.reader.group_commit import METADATA_OPTION, GroupCommitter, commit_group_id
from pyspark_ottla.reader.offset_specs import EARLIEST, LATEST, ending_offsets, starting_offsets
from pyspark_ottla.reader.planner import Planner, format_partitions, format_topic_id, source_options
from pyspark_ottla.reader.range_reader import RangePartition, RangeReader
from pyspark_ottla.reader.ranges import INITIAL, Offsets, from_json, limited, split, to_json

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class OttlaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches with the offsets of Spark's own Kafka connector in the checkpoint."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = source_options(options, streaming=True)
        self._start = starting_offsets(options, streaming=True)
        ending_offsets(options, streaming=True)
        self._rows_max = _rows(options, "maxOffsetsPerTrigger")
        self._rows_min = _rows(options, "minOffsetsPerTrigger")
        if self._rows_max is not None and self._rows_min is not None and self._rows_min > self._rows_max:
            raise ValueError(
                f"option 'minOffsetsPerTrigger' is {self._rows_min}, "
                f"more than the {self._rows_max} of maxOffsetsPerTrigger"
            )
        self._delay_max_ms = duration_ms("maxTriggerDelay", options.get("maxtriggerdelay", "15m"))
        self._reading = RangeReader(
            self._options.cluster,
            fetch_options(options),
            schema,
            value_formats(options),
            fail_on_data_loss=self._options.fail_on_data_loss,
        )
        self._planner = Planner(self._options)
        self._progress = GroupCommitter(
            self._options.cluster,
            commit_group_id(options, streaming=True),
            options.get(METADATA_OPTION.lower(), ""),
        )
        self._topic_ids: dict[str, bytes] = {}
        # Offsets that topics were read up to before they were made anew; until the next batch has begun.
        self._recreated: Offsets = {}
        self._recreated_planned = False
        self._initial: Offsets | None = None
        self._latest: Offsets | None = None
        self._available_now: Offsets | None = None
        # A query that starts does not wait: nobody knows for how long it was away.
        self._triggered_at_s = float("-inf")

    # How far to go.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        if self._initial is None:
            there = self._planner.partitions()
            self._planner.check_exist(there)
            self._topic_ids |= self._planner.topic_ids
            found = self._planner.resolve(self._start, there)
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
        # Spark asks for more when it has finished what was before, also at the end of Trigger.AvailableNow;
        # its call of `commit` comes a batch later, and for the last one never.
        self._progress.commit(begun)
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
            return start  # to the letter: Spark compares text to see that nothing is new
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
            there = self._planner.partitions()
            self._notice_new_ids(begun)
            latest = self._planner.latest(there)
        self._planner.report_deleted(begun, latest)
        self._latest = latest
        return dict(latest)

    def _notice_new_ids(self, begun: Offsets) -> None:
        """A topic that was deleted and made anew has the name of the old one, and records of its own."""
        if self._recreated_planned:
            self._recreated, self._recreated_planned = {}, False
        for topic, topic_id in self._planner.topic_ids.items():
            known = self._topic_ids.get(topic)
            self._topic_ids[topic] = topic_id
            read = {key: offset for key, offset in begun.items() if key[0] == topic}
            if known is None or known == topic_id or not read:
                continue
            ends = ", ".join(
                f"{format_partitions([key])} up to {offset}" for key, offset in sorted(read.items())[:5]
            )
            self._planner.report_loss(
                f"topic {topic!r} was deleted and made anew: its id was {format_topic_id(known)} and is "
                f"{format_topic_id(topic_id)} now; of the old one {ends} was read, what came after is gone"
            )
            self._recreated |= read

    def _rebased(self, begun: Offsets) -> Offsets:
        """Topics that were made anew are read from their beginning, if the query is to go on."""
        if not self._recreated:
            return begun
        there = self._latest or {}
        return begun | self._planner.earliest(
            [key for key in self._recreated if key in begun and key in there]
        )

    def _first_offsets(self, new: list[tuple[str, int]]) -> Offsets:
        """Partitions that came later are read from their beginning."""
        return self._planner.earliest(new) if new else {}

    def _must_wait(self, begun: Offsets, latest: Offsets) -> bool:
        if self._rows_min is None or self._available_now is not None:
            return False
        rows = sum(max(0, end - begun[key]) for key, end in latest.items())
        waited_ms = (time.monotonic() - self._triggered_at_s) * 1000
        return rows < self._rows_min and waited_ms < self._delay_max_ms

    def _check_initial(self, found: Offsets) -> None:
        """Offsets that somebody has named may not be there."""
        given = self._start.offsets
        asked = {
            key: offset
            for key, offset in found.items()
            if given is None or given[key] not in (EARLIEST, LATEST)
        }
        who = f"group {self._options.group_id!r}" if given is None else f"option {self._start.option!r}"
        first, last = self._planner.earliest(list(asked)), self._planner.latest(list(asked))
        for key, offset in asked.items():
            if not first[key] <= offset <= last[key]:
                self._planner.report_loss(
                    f"{who} names offset {offset} of {format_partitions([key])}, "
                    f"which has offsets {first[key]} to {last[key]}"
                )
                found[key] = min(max(offset, first[key]), last[key])

    # What to read.

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        # A first batch that is done again begins where it began, whatever the initial offsets are by now.
        begun = from_json(end[INITIAL] if INITIAL in end and INITIAL not in start else start)
        until = from_json(end)
        new = [key for key in until if key not in begun]
        first = self._first_offsets(new)
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
                    f"{format_partitions([key])} was read up to {begun[key]} and now ends at {last}: "
                    "it was truncated, or its topic was deleted and made anew"
                )
        ranges = [OffsetRange(*key, begun[key], last) for key, last in sorted(until.items())]
        pieces = split(ranges, self._options.pieces_min, self._options.piece_rows_max)
        return [RangePartition(span, self._topic_ids.get(span.topic)) for span in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, RangePartition):
            yield from self._reading.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark needs nothing before `end` any more; its checkpoint remembers that, not the cluster."""
        self._progress.commit(from_json(end))


def _rows(options: Mapping[str, str], name: str) -> int | None:
    value = options.get(name.lower())
    return None if value is None else whole_number(name, value, at_least=1)


def duration_ms(name: str, text: str) -> int:
    """Spark's way to write a time: 15m, 30s, 500ms; a plain number is seconds."""
    matched = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    unit = (matched[2] or "s") if matched else ""
    if matched is None or unit not in _UNITS_MS:
        raise ValueError(f"option {name!r} is {text!r}: expected a time such as 15m, 30s or 500ms")
    return int(matched[1]) * _UNITS_MS[unit]
