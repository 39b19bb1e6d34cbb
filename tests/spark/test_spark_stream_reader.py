"""The stream reader against a real broker, called as Spark calls it. Spark is not started."""

from __future__ import annotations

import json
import pickle
import uuid
from collections.abc import Callable

import pyarrow as pa
import pytest

pytest.importorskip(
    "pyspark", reason="the tests of the Spark data source need pyspark: pip install ottla[spark]"
)

from confluent_kafka import TopicPartition as Deleted
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from ottla.client import shared_cluster
from ottla.client.blocking.arrow_read import OffsetRange
from pyspark_ottla.reader.batch import OttlaReader
from pyspark_ottla.reader.columns import schema_of
from pyspark_ottla.reader.data_loss import DataLoss
from pyspark_ottla.reader.range_reader import RangePartition
from pyspark_ottla.reader.stream import OttlaStreamReader


class Query:
    """A fake micro-batch engine: the calls of Spark for one source, and a checkpoint."""

    def __init__(self, options: dict[str, str], **more: str) -> None:
        self.options = {**options, **{name.lower(): value for name, value in more.items()}}
        self.planned: list[str] = []
        self.done: list[str] = []
        self.start_process()

    def start_process(self) -> None:
        self.reader = OttlaStreamReader(self.options, schema_of(self.options))
        self.limit = self.reader.getDefaultReadLimit()

    def begin(self) -> dict:
        return json.loads(self.done[-1]) if self.done else self.reader.initialOffset()

    def plan(self, limit=None) -> bool:
        """Plan the next batch and write its end to the checkpoint. Returns whether there is new data."""
        begin = self.begin()
        end = json.dumps(self.reader.latestOffset(begin, limit or self.limit))
        if self.done and end == self.done[-1]:
            return False
        self.planned.append(end)
        return True

    def run(self) -> list[int]:
        """Read the planned batch. Returns its values."""
        end = json.loads(self.planned[-1])
        # A task gets a pickled copy of the reader.
        tasks = self.reader.partitions(self.begin(), end)
        copy = OttlaStreamReader(self.options, schema_of(self.options))
        tables = [list(copy.read(pickle.loads(pickle.dumps(task)))) for task in tasks]
        self.done.append(self.planned[-1])
        self.reader.commit(end)
        return sorted(int(value) for rows in tables for batch in rows for value in batch["value"].to_pylist())

    def batch(self, limit=None) -> list[int] | None:
        return self.run() if self.plan(limit) else None


def administer(cluster, act: Callable[[AdminClient], dict]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in act(admin).values():
        future.result(10)


@pytest.mark.ottla_topic(partitions=2)
def test_each_record_once_from_earliest(options, write):
    write(0, 10)
    query = Query(options, startingOffsets="earliest")
    assert query.batch() == list(range(10))
    assert query.batch() is None
    write(10, 5)
    query.start_process()
    assert query.batch() == list(range(10, 15))
    assert query.batch() is None
    assert query.reader.reportLatestOffset() == json.loads(query.done[-1])


def test_latest_survives_a_crash_in_the_first_batch(options, write):
    write(0, 3)
    query = Query(options)
    assert query.batch() == []
    write(3, 4)
    assert query.batch() == [3, 4, 5, 6]

    crashed = Query(options)
    crashed.reader.initialOffset()
    write(7, 2)
    crashed.plan()
    write(9, 1)
    crashed.start_process()
    assert crashed.run() == [7, 8]
    assert crashed.batch() == [9]


@pytest.mark.ottla_topic(partitions=3)
def test_limits(options, write):
    for partition, count in ((0, 600), (1, 300)):
        write(0, count, partition)
    query = Query(options, startingOffsets="earliest", maxOffsetsPerTrigger="90")
    assert query.limit == ReadMaxRows(90)
    assert len(query.batch()) == 90
    end = json.loads(query.done[-1])
    assert next(iter(end.values())) == {"0": 60, "1": 30, "2": 0}
    assert len(query.batch(ReadAllAvailable())) == 810


@pytest.mark.ottla_topic(partitions=2)
def test_min_partitions_and_max_records(ottla_topic, options, write):
    for partition, count in ((0, 90), (1, 10)):
        write(0, count, partition)

    def spans(**given: str) -> list[tuple]:
        query = Query(options, startingOffsets="earliest", **given)
        query.plan()
        tasks = query.reader.partitions(query.begin(), json.loads(query.planned[-1]))
        assert len(query.run()) == 100
        return [tuple(task.span[1:]) for task in tasks]

    assert spans() == [(0, 0, 90), (1, 0, 10)]
    assert spans(minPartitions="4") == [(0, 0, 30), (0, 30, 60), (0, 60, 90), (1, 0, 10)]
    assert spans(maxRecordsPerPartition="50") == [(0, 0, 45), (0, 45, 90), (1, 0, 10)]
    assert len(spans(maxRecordsPerPartition="50", minPartitions="10")) == 10


def test_min_offsets_per_trigger(options, write):
    query = Query(options, startingOffsets="earliest", minOffsetsPerTrigger="5", maxTriggerDelay="15m")
    assert query.limit == ReadMinRows(5)
    write(0, 2)
    assert query.batch() == [0, 1]
    write(2, 4)
    assert query.batch() is None
    write(6, 1)
    assert query.batch() == [2, 3, 4, 5, 6]
    write(7, 1)
    assert query.batch() is None
    query.reader._delay_max_ms = 0
    assert query.batch() == [7]


def test_available_now(options, write):
    write(0, 10)
    query = Query(options, startingOffsets="earliest", maxOffsetsPerTrigger="4", minOffsetsPerTrigger="3")
    query.reader.prepareForTriggerAvailableNow()
    write(10, 10)
    found = []
    while (values := query.batch()) is not None:
        found += values
    assert found == list(range(10))


def test_missing_topic(options):
    for given in ({"subscribe": "nowhere"}, {"assign": '{"nowhere": [3]}'}):
        named = {key: value for key, value in options.items() if key != "subscribe"} | given
        with pytest.raises(ValueError, match="no such topic or partition: nowhere"):
            Query(named).batch()


def test_new_partitions_start_at_earliest(ottla_cluster, ottla_topic, options, write):
    write(0, 2)
    query = Query(options)
    query.batch()
    administer(ottla_cluster, lambda admin: admin.create_partitions([NewPartitions(ottla_topic, 3)]))
    write(2, 3, partition=2)
    assert query.batch() == [2, 3, 4]
    assert set(json.loads(query.done[-1])[ottla_topic]) == {"0", "1", "2"}


def test_patterns_and_assignments(ottla_cluster, options, write):
    prefix = f"p{uuid.uuid4().hex}"
    ottla_cluster.create_topic(f"{prefix}-a", 1)
    given = {key: value for key, value in options.items() if key != "subscribe"}
    query = Query(given, subscribePattern=f"{prefix}-.*", startingOffsets="earliest")
    query.batch()
    ottla_cluster.create_topic(f"{prefix}-b", 2)
    query.batch()
    assert json.loads(query.done[-1]) == {f"{prefix}-a": {"0": 0}, f"{prefix}-b": {"0": 0, "1": 0}}
    assigned = Query(given, assign=json.dumps({f"{prefix}-b": [1]}))
    assert assigned.reader.initialOffset() == {f"{prefix}-b": {"1": 0}}


@pytest.mark.ottla_topic(partitions=2)
def test_starting_offsets_and_timestamps(ottla_topic, options, write):
    times = pa.array([1_000, 2_000, 3_000], pa.timestamp("ms", "UTC"))
    for partition in (0, 1):
        write(0, 3, partition, timestamp=times)

    def start(**given: str) -> dict[str, int]:
        return Query(options, **given).reader.initialOffset()[ottla_topic]

    assert start(startingOffsets=json.dumps({ottla_topic: {"0": 2, "1": -2}})) == {"0": 2, "1": 0}
    assert start(startingTimestamp="1500") == {"0": 1, "1": 1}
    by_time = json.dumps({ottla_topic: {"0": 3000, "1": 1}})
    assert start(startingOffsetsByTimestamp=by_time, startingOffsets="latest") == {"0": 2, "1": 0}
    with pytest.raises(ValueError, match=r"startingTimestamp.*no record at or after timestamp 9000"):
        start(startingTimestamp="9000")
    late = start(startingTimestamp="9000", startingOffsetsByTimestampStrategy="latest")
    assert late == {"0": 3, "1": 3}
    with pytest.raises(ValueError, match=f"must name every partition.*{ottla_topic}-1 is missing"):
        start(startingOffsets=json.dumps({ottla_topic: {"0": 2}}))
    outside = json.dumps({ottla_topic: {"0": 9, "1": 0}})
    with pytest.raises(DataLoss, match=r"offset 9 .*out of range.*0 to 3"):
        start(startingOffsets=outside)
    assert start(startingOffsets=outside, failOnDataLoss="false") == {"0": 3, "1": 0}


def test_records_removed_by_retention(ottla_cluster, ottla_topic, options, write):
    write(0, 10)
    for fails in ("true", "false"):
        query = Query(options, startingOffsets=json.dumps({ottla_topic: {"0": 2}}), failOnDataLoss=fails)
        if fails == "false":
            query.reader._start = query.reader._start._replace(offsets=None, symbolic=-2)
            query.reader._initial = {(ottla_topic, 0): 2}
        query.plan()
        administer(ottla_cluster, lambda admin: admin.delete_records([Deleted(ottla_topic, 0, 6)]))
        if fails == "true":
            with pytest.raises(
                DataLoss, match=r"cannot read offsets 2 to 5: the log starts at offset 6.*failOnDataLoss"
            ):
                query.run()
        else:
            assert query.run() == [6, 7, 8, 9]


@pytest.mark.parametrize("fails", [True, False])
def test_deleted_topic(ottla_cluster, ottla_topic, options, write, fails, monkeypatch):
    monkeypatch.setattr("ottla.client.blocking.fetch_range.MISSING_TOPIC_MAX_S", 0.2)
    write(0, 3)
    query = Query(options, startingOffsets="earliest", failOnDataLoss=str(fails).lower())
    query.plan()
    administer(ottla_cluster, lambda admin: admin.delete_topics([ottla_topic]))
    if fails:
        with pytest.raises(DataLoss, match="the topic was deleted; unread offsets 0 to 2 are gone"):
            query.run()
        query.done.append(query.planned[-1])
        with pytest.raises(DataLoss, match="deleted"):
            query.batch()
    else:
        assert query.run() == []
        assert query.batch() == []
        assert query.batch() is None


def test_end_before_start(ottla_topic, options, write):
    write(0, 3)
    query = Query(options, startingOffsets="earliest")
    query.batch()
    query.planned.append(json.dumps({ottla_topic: {"0": 1}}))
    with pytest.raises(
        DataLoss, match=r"read up to offset 3 and now ends at offset 1: it was truncated, or .* recreated"
    ):
        query.run()


def recreate_topic(cluster, topic: str, partitions: int = 1) -> None:
    administer(cluster, lambda admin: admin.delete_topics([topic]))
    cluster.create_topic(topic, partitions)
    # A task may run on another machine with its own metadata.
    shared_cluster(cluster.bootstrap_servers).view.expire(topic)


@pytest.mark.parametrize("fails", [True, False])
def test_topic_recreated_between_batches(ottla_cluster, ottla_topic, options, write, fails):
    write(0, 3)
    query = Query(options, startingOffsets="earliest", failOnDataLoss=str(fails).lower())
    query.batch()
    recreate_topic(ottla_cluster, ottla_topic)
    # It has more records than were read of the old one: offsets alone do not show the change.
    write(10, 5)
    if fails:
        expected = (
            f"'{ottla_topic}' was .*recreated: its id was .{{22}} and is now .{{22}}; .* up to offset 3"
        )
        with pytest.raises(DataLoss, match=expected):
            query.batch()
    else:
        assert query.batch() == [10, 11, 12, 13, 14]
        write(15, 1)
        assert query.batch() == [15]
        assert query.batch() is None


@pytest.mark.parametrize("fails", [True, False])
def test_topic_recreated_before_a_task_reads_it(ottla_cluster, ottla_topic, options, write, fails):
    write(0, 3)
    query = Query(options, startingOffsets="earliest", failOnDataLoss=str(fails).lower())
    query.plan()
    recreate_topic(ottla_cluster, ottla_topic)
    write(10, 5)
    if fails:
        with pytest.raises(
            DataLoss, match=r"recreated: its id was .* unread offsets 0 to 2 of partition 0 are gone"
        ):
            query.run()
    else:
        assert query.run() == []


@pytest.mark.ottla_topic(partitions=2)
def test_deleted_partition(ottla_cluster, ottla_topic, options, write, monkeypatch):
    monkeypatch.setattr("ottla.client.blocking.fetch_range.MISSING_TOPIC_MAX_S", 0.2)
    for partition in (0, 1):
        write(0, 3, partition)
    query = Query(options, startingOffsets="earliest")
    query.batch()
    recreate_topic(ottla_cluster, ottla_topic)
    again = Query(options)
    again.done, again.planned = query.done, query.planned
    with pytest.raises(
        DataLoss, match=f"{ottla_topic}-1 was read up to offset 3 and no longer exists: .* 1 partitions"
    ):
        again.batch()
    task = RangePartition(OffsetRange(ottla_topic, 1, 1, 3))
    with pytest.raises(
        DataLoss, match=r"partition 1 no longer exists: .* 1 partitions; unread offsets 1 to 2 are gone"
    ):
        list(query.reader.read(task))


@pytest.mark.ottla_topic(partitions=2)
def test_batch_queries(ottla_topic, options, write):
    for partition in (0, 1):
        write(0, 100, partition)

    def spans(**given: str) -> list[tuple]:
        reader = OttlaReader(options | {k.lower(): v for k, v in given.items()}, schema_of({}))
        return [tuple(task.span[1:]) for task in reader.partitions()]

    assert spans() == [(0, 0, 100), (1, 0, 100)]
    assert spans(minPartitions="4") == [(0, 0, 50), (0, 50, 100), (1, 0, 50), (1, 50, 100)]
    assert len(spans(maxRecordsPerPartition="30")) == 8
    ends = json.dumps({ottla_topic: {"0": 10, "1": -1}})
    starts = json.dumps({ottla_topic: {"0": 10, "1": 99}})
    assert spans(endingOffsets=ends, startingOffsets=starts) == [(1, 99, 100)]
    assert spans(endingTimestamp="99999999999999") == [(0, 0, 100), (1, 0, 100)]
    assert spans(endingTimestamp="1") == []
    late = json.dumps({ottla_topic: {"0": 100, "1": 0}})
    for fixed in ({"endingoffsets": ends}, {"endingtimestamp": "1"}):
        with pytest.raises(
            ValueError, match=r"startingOffsets.*(10 of endingOffsets|'endingTimestamp'.*before the start)"
        ):
            spans(startingOffsets=late, **fixed)
    with pytest.raises(ValueError, match="no such topic or partition: no-such"):
        OttlaReader(options | {"subscribe": "no-such"}, schema_of({})).partitions()


def test_record_batches_match_the_schema(ottla_topic, options, write):
    from pyspark.sql.pandas.types import to_arrow_schema

    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    write(0, 3, headers=pa.array([[], [{"key": "h", "value": b"1"}], []], header))
    for more in ({}, {"includeheaders": "true"}, {"columns": "headers,timestampType,value"}):
        schema = schema_of(options | more)
        reader = OttlaReader(options | more, schema)
        (batch,) = reader.read(RangePartition(OffsetRange(ottla_topic, 0, 1, 3)))
        assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))
        batch.validate(full=True)
        assert batch["value"].to_pylist() == [b"1", b"2"]
        if "headers" in schema.names:
            assert batch["headers"].to_pylist() == [[{"key": "h", "value": b"1"}], None]
