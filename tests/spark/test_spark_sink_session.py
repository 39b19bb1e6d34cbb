"""The exactly-once sink in a real Spark."""

from __future__ import annotations

import pytest

from tests.support.waiting import wait_until

pytest.importorskip("pyspark", reason="the sink of Spark needs pyspark: pip install ottla[spark]")

from pyspark.errors import PySparkException

from ottla.client import LATEST, SyncTransactions, read_arrow, shared_cluster
from ottla.testing import Cluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    # Py4J does not close its sockets.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def brokers():
    with Cluster(config={"transaction.two.phase.commit.enable": True}) as cluster:
        yield cluster


def seen(brokers, topic: str) -> list[int]:
    """Return the numbers in the topic, after all transactions have ended."""
    cluster = shared_cluster(brokers.bootstrap_servers)
    latest = dict.fromkeys(((topic, number) for number in cluster.topic(topic).partitions), LATEST)
    wait_until(
        lambda: cluster.list_offsets(latest, read_committed=True) == cluster.list_offsets(latest),
        "all transactions are ended",
        90,
    )
    table = read_arrow(topic, bootstrap_servers=brokers.bootstrap_servers).read_all()
    return sorted(int(value) for value in table["value"].to_pylist())


def frame(spark, first: int, last: int, partitions: int = 3):
    return spark.range(first, last, 1, partitions).selectExpr(
        "cast(id as string) key", "cast(id as string) VALUE"
    )


def finish(query, again) -> None:
    """Wait for the end; restart if Spark's 10 s limit for the start of its processes was exceeded."""
    for _ in range(5):
        try:
            assert query.awaitTermination(200)
            return
        except PySparkException as error:
            if "failed to connect back" not in str(error):
                raise
        query = again()
    raise AssertionError("Spark cannot start its Python workers")


def test_two_streams_and_a_restart_with_more_tasks(spark, brokers, tmp_path):
    for topic in ("in", "left", "right"):
        brokers.create_topic(topic, 2)

    def write(first: int, last: int) -> None:
        writing = frame(spark, first, last).write.format("ottla").mode("append")
        writing.option("kafka.bootstrap.servers", brokers.bootstrap_servers).option("topic", "in").save()

    def start(topic: str, **more: str):
        reading = spark.readStream.format("ottla").option(
            "kafka.bootstrap.servers", brokers.bootstrap_servers
        )
        return (
            reading.options(subscribe="in", startingOffsets="earliest", maxOffsetsPerTrigger="150", **more)
            .load()
            .selectExpr("key", "value")
            .writeStream.format("ottla")
            .option("kafka.bootstrap.servers", brokers.bootstrap_servers)
            .options(topic=topic, mode="exactly-once", checkpointLocation=str(tmp_path / topic))
            .trigger(availableNow=True)
            .start()
        )

    write(0, 300)
    for more in ({}, {"minPartitions": "5"}):
        queries = {topic: start(topic, **more) for topic in ("left", "right")}
        for topic, query in queries.items():
            finish(query, lambda topic=topic, more=more: start(topic, **more))
        write(300, 320)
    assert seen(brokers, "left") == seen(brokers, "right") == list(range(320))
    assert SyncTransactions(shared_cluster(brokers.bootstrap_servers)).open_ids("ottla-spark/") == []


def test_batch_jobs(spark, brokers):
    brokers.create_topic("jobs", 2)

    def save(rows, **options: str) -> None:
        writing = rows.write.format("ottla").mode("append").option("mode", "exactly-once")
        writing.option("kafka.bootstrap.servers", brokers.bootstrap_servers).options(
            # The transaction of a killed task ends by its time-out.
            **{"kafka.transaction.timeout.ms": "10000", "topic": "jobs", **options}
        ).save()

    save(frame(spark, 0, 100))
    bad = frame(spark, 100, 200).selectExpr(
        "key", "if(key = '150', string(raise_error('a bad row')), VALUE) VALUE"
    )
    with pytest.raises(PySparkException, match="a bad row"):
        save(bad)
    for version in ("7", "7", "8"):
        save(
            frame(spark, 0, 10).selectExpr("key", f"string({version}00 + key) VALUE"),
            txnAppId="a",
            txnVersion=version,
        )
    assert seen(brokers, "jobs") == [*range(100), *range(700, 710), *range(800, 810)]
    assert SyncTransactions(shared_cluster(brokers.bootstrap_servers)).open_ids("ottla-spark/") == []


def test_refused_row_is_named(spark, brokers):
    brokers.create_topic("small", 1)
    large = spark.range(1).selectExpr("'the key' key", "repeat('x', 5000) value")
    writing = large.write.format("ottla").mode("append").option("mode", "exactly-once")
    writing = writing.option("kafka.bootstrap.servers", brokers.bootstrap_servers).option("topic", "small")
    with pytest.raises(PySparkException, match="the record with key b'the key'"):
        writing.option("kafka.max.request.size", "1000").save()
    brokers.create_topic("letters", 1)
    writing.option("kafka.max.request.size", "1000").option("deadLetterTopic", "letters").save()
    (letter,) = (
        read_arrow("letters", bootstrap_servers=brokers.bootstrap_servers)
        .read_all()
        .select(["key"])
        .to_pylist()
    )
    assert letter == {"key": b"the key"}
