"""Progress of queries, from Spark's reports: batches, rows, lag, state and dead letters."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.pipeline.plan import DEAD_LETTER_METRIC, DROPPED_METRIC_PREFIX
from pyspark_ottla.offsets import Offsets, from_json


class QueryProgress:
    """The progress of one query. `update` takes Spark's reports in order; repeated reports are ignored."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.batch_id = -1
        self.batches = 0
        self.rows = 0
        self.rows_per_second = 0.0
        self.batch_ms = 0
        self.lag: dict[str, int] = {}
        self.state_rows = 0
        self.state_bytes = 0
        self.dead_letters = 0
        self.dropped = 0
        self.state = "starting"
        self._seen: tuple[int, str] = (-1, "")

    def update(self, reports: Iterable[Mapping[str, Any]]) -> bool:
        """Add reports. Returns whether any of them was new."""
        new = False
        for report in reports:
            stamp = (int(report.get("batchId", -1)), str(report.get("timestamp", "")))
            if stamp <= self._seen:
                continue
            self._seen = stamp
            self._take(report)
            new = True
        return new

    def _take(self, report: Mapping[str, Any]) -> None:
        sources = report.get("sources") or ()
        rows = int(_total(report, sources, "numInputRows"))
        batch_id = int(report["batchId"])
        if batch_id > self.batch_id:
            self.batches += rows > 0
        self.batch_id = batch_id
        self.rows += rows
        self.batch_ms = int((report.get("durationMs") or {}).get("triggerExecution", 0))
        self.rows_per_second = _total(report, sources, "processedRowsPerSecond") if rows else 0.0
        self.lag = lags(sources)
        operators = report.get("stateOperators") or ()
        self.state_rows = sum(int(each.get("numRowsTotal") or 0) for each in operators)
        self.state_bytes = sum(int(each.get("memoryUsedBytes") or 0) for each in operators)
        for name, row in (report.get("observedMetrics") or {}).items():
            count = _counted(row)
            if name == DEAD_LETTER_METRIC:
                self.dead_letters += count
            elif name.startswith(DROPPED_METRIC_PREFIX):
                self.dropped += count


def _total(report: Mapping[str, Any], sources: Iterable[Mapping[str, Any]], name: str) -> float:
    """Return a total; reports of Spark Connect have values per source only."""
    if name in report:
        return float(report[name] or 0.0)
    return sum(float(source.get(name) or 0.0) for source in sources)


def _counted(row: Mapping[str, Any]) -> int:
    """Return the column `rows` of an observed row, which Spark Connect reports as values and a schema."""
    if "schema" in row:
        names = [field["name"] for field in row["schema"]["fields"]]
        row = dict(zip(names, row["values"], strict=True))
    return int(row.get("rows") or 0)


def lags(sources: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the number of unread offsets by topic. Tables and other sources report none."""
    found: dict[str, int] = {}
    for source in sources:
        end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        lag: dict[str, int] = {}
        for key, last in latest.items():
            lag[key[0]] = lag.get(key[0], 0) + max(0, last - end.get(key, 0))
        for topic, unread in lag.items():
            found[topic] = max(found.get(topic, 0), unread)
    return found


def _offsets(value: Any) -> Offsets:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return from_json(value) if isinstance(value, Mapping) else {}
