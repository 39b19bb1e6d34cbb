"""Parts of the source that need no Spark session: timestamps out of range, refreshed group offsets."""

from __future__ import annotations

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="the source of Spark needs pyspark: pip install ottla[spark]")

from ottla.client import ClusterOptions
from ottla.client.blocking.groups import SyncGroup
from pyspark_ottla.reader import group_commit
from pyspark_ottla.reader.columns import TIMESTAMP_MS_MAX, SparkColumns, schema_of

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("extreme", [-(2**63), 2**63 - 1, -TIMESTAMP_MS_MAX - 1, TIMESTAMP_MS_MAX + 1])
def test_timestamp_beyond_the_range_of_spark_is_null(extreme):
    columns = SparkColumns(schema_of({"columns": "timestamp,offset"}))
    times = pa.array([extreme, 5, -1], pa.timestamp("ms", tz="UTC"))
    rows = pa.record_batch({"timestamp": times, "offset": pa.array([0, 1, 2], pa.int64())})
    found = columns.apply(rows, "t", 0)
    assert found["timestamp"].cast(pa.int64()).to_pylist() == [None, 5_000, -1_000]


def test_offsets_of_idle_partitions_are_committed_again(monkeypatch):
    """They would expire after offsets.retention.minutes, although the query lives."""
    commits, now = [], [1000.0]
    monkeypatch.setattr(SyncGroup, "commit", lambda self, rows, **_: commits.append(sorted(rows)))
    monkeypatch.setattr(group_commit.time, "monotonic", lambda: now[0])
    committer = group_commit.GroupCommitter(ClusterOptions("127.0.0.1:1"), "g")
    both = {("t", 0): 5, ("t", 1): 7}
    committer.commit(both)
    committer.commit(both)
    committer.commit(both | {("t", 0): 6})
    assert commits == [[("t", 0), ("t", 1)], [("t", 0)]]
    now[0] += group_commit.REFRESH_S + 1
    committer.commit(both | {("t", 0): 6})
    committer.commit(both | {("t", 0): 6})
    assert commits[2:] == [[("t", 0), ("t", 1)]]
