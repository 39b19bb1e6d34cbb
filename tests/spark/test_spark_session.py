"""Batch and streaming queries in a real Spark."""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module

import pyarrow as pa
import pytest

pytest.importorskip(
    "pyspark", reason="the tests of the Spark data source need pyspark: pip install ottla[spark]"
)

from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.errors import PySparkException
from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from ottla.client import SyncCluster, read_arrow, write_arrow
from ottla.client.blocking.groups import SyncGroup

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    # Py4J does not close its sockets.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


def numbers(rows) -> list[int]:
    return sorted(int(row.value) for row in rows)


@pytest.mark.ottla_topic(partitions=3)
def test_batch_read_and_write(spark, ottla_cluster, ottla_topic, options, write):
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    write(0, 1000, headers=pa.array([[{"key": "h", "value": b"x"}], []] * 500, header))
    frame = spark.read.format("ottla").options(**options, includeHeaders="true", minPartitions="5").load()
    assert frame.rdd.getNumPartitions() == 5
    rows = frame.orderBy("partition", "offset").collect()
    assert numbers(rows) == list(range(1000))
    offsets = [row.offset for row in rows if row.partition == 1]
    assert offsets == list(range(len(offsets)))
    assert sum(row.headers is None for row in rows) == 500
    assert rows[0].topic == ottla_topic

    narrow = spark.read.format("ottla").options(**options, columns="value").load()
    assert narrow.columns == ["value"]

    copy = f"{ottla_topic[:200]}-copy"
    ottla_cluster.create_topic(copy, 2)
    (
        frame.selectExpr("key", "cast(value as string) value", "headers", f"'{copy}' as topic")
        .write.format("ottla")
        .option("kafka.bootstrap.servers", options["kafka.bootstrap.servers"])
        .option("kafka.compression.type", "zstd")
        .mode("append")
        .save()
    )
    table = read_arrow(copy, bootstrap_servers=ottla_cluster.bootstrap_servers).read_all()
    assert sorted(int(value) for value in table["value"].to_pylist()) == list(range(1000))
    assert sum(bool(headers) for headers in table["headers"].to_pylist()) == 500


@pytest.mark.ottla_topic(partitions=2)
def test_stream_resumes_from_its_checkpoint(spark, ottla_cluster, ottla_topic, options, write, tmp_path):
    copy = f"{ottla_topic[:200]}-copy"
    ottla_cluster.create_topic(copy, 1)
    write(0, 100)

    def run(**more: str) -> list[dict]:
        query = (
            spark.readStream.format("ottla")
            .options(**options, startingOffsets="earliest", maxOffsetsPerTrigger="40", **more)
            .load()
            .selectExpr("key", "value")
            .writeStream.format("ottla")
            .option("kafka.bootstrap.servers", options["kafka.bootstrap.servers"])
            .option("topic", copy)
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        return [json.loads(progress.json) for progress in query.recentProgress]

    def copied() -> list[int]:
        table = read_arrow(copy, bootstrap_servers=ottla_cluster.bootstrap_servers).read_all()
        return sorted(int(value) for value in table["value"].to_pylist())

    progress = run()
    assert copied() == list(range(100))
    assert len([row for row in progress if row["numInputRows"]]) == 3
    write(100, 10)
    run(minPartitions="4")
    assert copied() == list(range(110))
    # The checkpoint has the format of Spark's Kafka connector.
    newest = max(os.listdir(tmp_path / "offsets"), key=lambda name: int(name) if name.isdigit() else -1)
    ends = json.loads((tmp_path / "offsets" / newest).read_text().splitlines()[-1])
    assert sum(ends[ottla_topic].values()) == 110


def test_crash_in_the_first_batch(spark, options, write, tmp_path):
    write(0, 3)
    seen: list[int] = []

    def start(crash: bool):
        def each(frame, batch_id: int) -> None:
            if crash and batch_id == 0:
                write(3, 2)
            if crash and batch_id == 1:
                raise RuntimeError("crash")
            seen.extend(numbers(frame.collect()))

        return (
            spark.readStream.format("ottla")
            .options(**options)
            .load()
            .writeStream.foreachBatch(each)
            .option("checkpointLocation", str(tmp_path))
            .start()
        )

    query = start(crash=True)
    with pytest.raises(PySparkException, match="crash"):
        query.awaitTermination(120)
    # Revert the checkpoint to a crash in batch 0: its end is written, but it is not committed.
    first = json.loads((tmp_path / "offsets" / "1").read_text().splitlines()[-1])
    for number in ("0", "1"):
        for name in (
            f"offsets/{number}",
            f"offsets/.{number}.crc",
            f"commits/{number}",
            f"commits/.{number}.crc",
        ):
            if (tmp_path / name).exists() and not name.endswith("offsets/0"):
                os.remove(tmp_path / name)
    log = (tmp_path / "offsets" / "0").read_text().splitlines()
    initial = json.loads(log[-1])["@initial"]
    (tmp_path / "offsets" / "0").write_text("\n".join([*log[:-1], json.dumps(first | {"@initial": initial})]))
    write(5, 1)
    again = start(crash=False)
    again.processAllAvailable()
    again.stop()
    assert seen == [3, 4, 5]


def test_decoded_values_and_group_commits(spark, ottla_cluster, ottla_topic, options, tmp_path):
    values = [
        json.dumps({"id": number, "at": "2026-01-02T03:04:05Z", "tags": {"a": number}}) for number in range(9)
    ]
    values[4] = "no order"
    write_arrow(
        pa.table({"value": pa.array([value.encode() for value in values], pa.binary())}),
        ottla_topic,
        bootstrap_servers=ottla_cluster.bootstrap_servers,
    )
    group_id = f"{ottla_topic[:200]}-readers"
    rows = []
    query = (
        spark.readStream.format("ottla")
        .options(**options, startingOffsets="earliest", maxOffsetsPerTrigger="6")
        .option("valueFormat", "json")
        .option("valueSchema", "id bigint, at timestamp, tags map<string, int>")
        .option("badRecords", "columns")
        .option("kafka.group.id", group_id)
        .option("commitOffsetsToGroup", "true")
        .load()
        .selectExpr("value.id", "hour(value.at) as hour", "value.tags['a'] as tag", "error", "raw")
        .writeStream.foreachBatch(lambda frame, _: rows.extend(frame.collect()))
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    good = sorted((row.id, row.hour, row.tag) for row in rows if row.error is None)
    assert good == [(number, 3, number) for number in range(9) if number != 4]
    assert [bytes(row.raw) for row in rows if row.error is not None] == [b"no order"]
    # Two batches; the last one is committed too.
    cluster = SyncCluster(ottla_cluster.bootstrap_servers)
    assert SyncGroup(cluster, group_id).committed()[ottla_topic, 0].offset == 9
    cluster.close()
    progress = [json.loads(row.json) for row in query.recentProgress]
    lags = [
        row["sources"][0]["latestOffset"][ottla_topic]["0"] - row["sources"][0]["endOffset"][ottla_topic]["0"]
        for row in progress
        if row["numInputRows"]
    ]
    assert lags == [3, 0]


def test_new_partitions_during_a_query(spark, ottla_cluster, ottla_topic, options, write, tmp_path):
    write(0, 10)
    seen: list[int] = []
    query = (
        spark.readStream.format("ottla")
        .options(**options, startingOffsets="earliest")
        .load()
        .writeStream.foreachBatch(lambda frame, _: seen.extend(int(row.value) for row in frame.collect()))
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    query.processAllAvailable()
    admin = AdminClient({"bootstrap.servers": ottla_cluster.bootstrap_servers})
    admin.create_partitions([NewPartitions(ottla_topic, 3)])[ottla_topic].result(10)
    for partition in range(3):
        write(10 * (partition + 1), 10, partition)
    query.processAllAvailable()
    query.stop()
    assert sorted(seen) == list(range(40))


def test_empty_topic_and_kafka_format(spark, options, write, monkeypatch):
    assert spark.read.format("ottla").options(**options).load().count() == 0
    write(0, 3)
    # Undo the patches of the module after the test.
    for owner in (DataFrameReader, DataFrameWriter, DataStreamReader, DataStreamWriter):
        monkeypatch.setattr(owner, "format", owner.format)
    monkeypatch.delitem(sys.modules, "pyspark_ottla.kafka_format", raising=False)
    import_module("pyspark_ottla.kafka_format")
    assert spark.read.format("kafka").options(**options).load().count() == 3
    assert spark.readStream.load(format="kafka", **options).isStreaming
    writing = spark.createDataFrame([("3",)], "value string").write.format("kafka")
    writing.option("kafka.bootstrap.servers", options["kafka.bootstrap.servers"])
    writing.option("topic", options["subscribe"]).save()
    assert spark.read.format("kafka").options(**options).load().count() == 4


def test_errors_reach_the_user(spark, options):
    with pytest.raises(PySparkException, match="exactly one of the options subscribe"):
        spark.read.format("ottla").options(**options, assign='{"t": [0]}').load().count()
    with pytest.raises(PySparkException, match="schema of this source is fixed"):
        spark.read.schema("value string").format("ottla").options(**options).load().count()
    with pytest.raises(PySparkException, match="no such topic or partition: nowhere"):
        spark.read.format("ottla").options(**options | {"subscribe": "nowhere"}).load().count()
