"""Spark reading and writing: our connector on Ottla compared with Spark's own connector on Apache Kafka.

Users choose a broker with its connector, so both are compared together. One Spark (`local[2]`) runs both
alternately; topics are filled by the same client with the same batches, and options are the same. To compare
only the connectors on the same topic, use `python -m bench --only spark-read`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from bench.broker import BenchError
from bench.meter import ready_page_cache
from bench.peers.contest import Effort, Figures, Measure, Scenario, Stopwatch
from bench.peers.fleet import Fleet
from bench.peers.scenarios.produce import texts
from bench.spark_session import connector, spark_cpu_s, spark_session
from ottla.client import ArrowWriter, NewTopic, shared_cluster
from ottla.client.blocking.arrow_read import resolve_ranges

PARTITIONS = 2
SIZES = {"100 B": 100, "1 KB": 1024}
SMALL = "100 B"
LARGE_SHARE = 4  # of the rows: they have ten times the bytes
BATCHES = {"64 KB": 64 * 1024, "1 MB": 1_000_000}
BATCH = "64 KB"
LINGER_MS = 5
ROWS_AT_ONCE = 100_000
ID_DIGITS = 10
RATE = Measure("M rows/s", less_is_better=False, goal=1)
SPARK_CPU = Measure("CPU s of Spark per M rows", goal=1)
SERVER_CPU = Measure("server CPU s per M rows")


def spark(fleet: Fleet, effort: Effort) -> Figures:
    if fleet.peer.kafka is not None and connector() is None:
        return {}  # the reason is printed already
    found: Figures = {}
    for size in SIZES:
        rows = effort.spark_rows // (1 if size == SMALL else LARGE_SHARE)
        topic = _filled(fleet, size, rows)
        found |= _read(fleet, topic, f"read {size}, all columns", rows, "")
        found |= _read(fleet, topic, f"read {size}, value alone", rows, "value")
        for batch in BATCHES:
            found |= _write(fleet, size, batch, rows)
        if size == SMALL:
            found |= _stream(fleet, topic, rows)
    return found


def _format(fleet: Fleet) -> str:
    return "ottla" if fleet.peer.kafka is None else "kafka"


def _source(fleet: Fleet, reader: Any, topic: str, columns: str = "") -> Any:
    """Return a frame of the topic. Spark's connector returns all columns; Spark drops the others."""
    reader = reader.format(_format(fleet)).option("kafka.bootstrap.servers", fleet.address)
    if columns and fleet.peer.kafka is None:
        reader = reader.option("columns", columns)
    frame = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
    return frame.select(*columns.split(",")) if columns else frame


def _read(fleet: Fleet, topic: str, name: str, rows: int, columns: str) -> Figures:
    frame = _source(fleet, spark_session().read, topic, columns)
    return _measured(fleet, name, rows, lambda: frame.write.format("noop").mode("overwrite").save())


def _sink(fleet: Fleet, writer: Any, topic: str, batch: str) -> Any:
    return (
        writer.format(_format(fleet))
        .option("kafka.bootstrap.servers", fleet.address)
        .option("kafka.batch.size", str(BATCHES[batch]))
        .option("kafka.linger.ms", str(LINGER_MS))
        .option("topic", topic)
    )


def _write(fleet: Fleet, size: str, batch: str, rows: int) -> Figures:
    """Write rows that Spark generates, at very low cost."""
    from pyspark.sql import functions

    text = texts(SIZES[size] - ID_DIGITS)[0].decode()
    number = functions.lpad(functions.col("id").cast("string"), ID_DIGITS, "0")
    value = functions.concat(number, functions.lit(text)).alias("value")
    frame = spark_session().range(rows, numPartitions=PARTITIONS).select(value)
    topic = _new_topic(fleet)
    ready_page_cache(fleet.directory, rows * SIZES[size], 1_000_000)
    writer = _sink(fleet, frame.write, topic, batch).mode("append")
    found = _measured(fleet, f"write {size} in {batch}", rows, writer.save)
    _check_written(fleet, topic, rows)
    fleet.delete_topic(topic)
    return found


def _stream(fleet: Fleet, topic: str, rows: int) -> Figures:
    """Measure a query that copies one topic to another and ends, including its start."""
    target = _new_topic(fleet)
    with tempfile.TemporaryDirectory(dir=fleet.directory) as checkpoint:
        frame = _source(fleet, spark_session().readStream, topic, "value")
        writer = _sink(fleet, frame.writeStream, target, BATCH).option("checkpointLocation", checkpoint)
        copy = writer.trigger(availableNow=True)
        found = _measured(fleet, f"stream {SMALL}, topic to topic", rows, lambda: _run(copy))
    _check_written(fleet, target, rows)
    fleet.delete_topic(target)
    return found


def _run(writer: Any) -> None:
    query = writer.start()
    query.awaitTermination()


def _measured(fleet: Fleet, name: str, rows: int, work: Callable[[], None]) -> Figures:
    watch, spark_before_s = Stopwatch(fleet), spark_cpu_s()
    work()
    took_s, used = watch.stop()
    spark_used_s = spark_cpu_s() - spark_before_s
    millions = rows / 1e6
    return {
        f"{name}: rate": (millions / took_s, RATE),
        f"{name}: CPU of Spark": (spark_used_s / millions, SPARK_CPU),
        f"{name}: CPU of the server": (used.cpu_s / millions, SERVER_CPU),
    }


def _new_topic(fleet: Fleet) -> str:
    topic = f"spark-{os.urandom(6).hex()}"
    fleet.create_topic(NewTopic(topic, PARTITIONS, 1))
    fleet.await_in_sync(topic)
    return topic


def _filled(fleet: Fleet, size: str, rows: int) -> str:
    """Return the topic to read; it is created in the first round."""
    topic = f"spark-source-{SIZES[size]}"
    if any(name.startswith(f"{topic}-") for name in os.listdir(fleet.brokers[0].data_dir)):
        return topic
    fleet.create_topic(NewTopic(topic, PARTITIONS, 1))
    fleet.await_in_sync(topic)
    pool = texts(SIZES[size])
    with ArrowWriter(shared_cluster(fleet.address), topic, batch_bytes=BATCHES[BATCH]) as writer:
        for start in range(0, rows, ROWS_AT_ONCE):
            numbers = range(start, min(start + ROWS_AT_ONCE, rows))
            columns = {
                "key": [b"key %d" % (row % 10_000) for row in numbers],
                "value": [pool[row % len(pool)] for row in numbers],
                "partition": pa.array([row % PARTITIONS for row in numbers], pa.int32()),
            }
            writer.write(pa.record_batch(columns))
    _check_written(fleet, topic, rows)
    found = _source(fleet, spark_session().read, topic).count()
    if found != rows:
        raise BenchError(f"Spark read {found} of {rows} rows from {fleet.name}")
    return topic


def _check_written(fleet: Fleet, topic: str, rows: int) -> None:
    spans = resolve_ranges(shared_cluster(fleet.address), topic, "earliest", "latest")
    found = sum([span.end - span.start for span in spans])
    if found != rows:
        raise BenchError(f"{fleet.name} has {found} of {rows} rows")


SCENARIOS = (
    Scenario(
        "spark",
        "Spark, local[2]: our connector on Ottla, Spark's own connector on Kafka",
        spark,
        # The cached producer of Spark's connector requests metadata of deleted topics for a long time, and
        # Kafka would recreate them during a round.
        settings={"auto.create.topics.enable": "false"},
        warm_ups=3,
    ),
)
