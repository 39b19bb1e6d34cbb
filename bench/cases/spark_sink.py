"""Spark writing to topics: the exactly-once sink compared with at-least-once, and the latency of a record.

Every round copies the same rows with both sinks in turn; the ratio is the relevant figure.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from bench.broker import BenchError, Broker, Launch
from bench.figures import Figure, figure_of
from bench.sizes import Sizes
from bench.spark_session import spark_cpu_s, spark_session
from bench.wire import Wire
from ottla.client import read_arrow, write_arrow

PARTITIONS = 2
VALUE_BYTES = 100
MODES = ("at-least-once", "exactly-once")
OF_AT_LEAST_ONCE_MIN = 0.8
WARM_UPS = 2  # copies that are not counted: workers start, the JVM compiles
WARM_UP_RECORDS = 3
TIMEOUT_S = 60
SETTINGS = {"transaction.two.phase.commit.enable": "true"}


class Copied(NamedTuple):
    wall_s: float
    cpu_s: float


def spark_sink(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    rows = max(10_000, sizes.spark_rows // 6)
    with (
        tempfile.TemporaryDirectory(dir=launch.data_root) as directory,
        Broker(launch, SETTINGS) as broker,
        Wire(broker) as wire,
    ):
        spark = spark_session()
        wire.create_topic("bench-in", PARTITIONS)
        values = [os.urandom(VALUE_BYTES // 2).hex().encode() for _ in range(1000)]
        table = pa.table({"value": [values[row % 1000] for row in range(rows)]})
        write_arrow(table, "bench-in", bootstrap_servers=broker.address)
        copied: dict[str, list[Copied]] = {mode: [] for mode in MODES}
        for number in range(sizes.spark_rounds + WARM_UPS):
            for mode in MODES:
                topic = f"bench-{mode}-{number}"
                wire.create_topic(topic, PARTITIONS)
                place = os.path.join(directory, topic)
                copied[mode].append(_copy(spark, broker, topic, mode, place, rows))
        yield from _figures({mode: rounds[WARM_UPS:] for mode, rounds in copied.items()}, rows)
        for mode in MODES:
            taken_ms = _latencies(spark, broker, wire, mode, directory, sizes.spark_latencies)
            yield figure_of(f"spark sink, append to sink, {mode}", taken_ms, "ms")


def _figures(copied: Mapping[str, Sequence[Copied]], rows: int) -> Iterator[Figure]:
    for mode in MODES:
        cpu = [each.cpu_s / rows * 1e6 for each in copied[mode]]
        speed = [rows / each.wall_s / 1e6 for each in copied[mode]]
        yield figure_of(f"spark sink, {mode}: CPU", cpu, "CPU s per M rows")
        yield figure_of(f"spark sink, {mode}: speed", speed, "M rows/s", more_is_better=True)
    pairs = list(zip(copied[MODES[1]], copied[MODES[0]], strict=True))
    name = "spark sink, exactly once, times at least once"
    faster = [two.wall_s / one.wall_s for one, two in pairs]
    yield figure_of(f"{name}: speed", faster, "times", OF_AT_LEAST_ONCE_MIN, more_is_better=True)
    cheaper = [two.cpu_s / one.cpu_s for one, two in pairs]
    yield figure_of(f"{name}: CPU", cheaper, "times", more_is_better=True)


def _stream(spark: Any, broker: Broker, source: str, target: str, mode: str, checkpoint: str) -> Any:
    reading = spark.readStream.format("ottla").option("kafka.bootstrap.servers", broker.address)
    return (
        reading.option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("columns", "value")
        .load()
        .writeStream.format("ottla")
        .option("kafka.bootstrap.servers", broker.address)
        .option("topic", target)
        .option("mode", mode)
        .option("checkpointLocation", checkpoint)
    )


def _copy(spark: Any, broker: Broker, topic: str, mode: str, checkpoint: str, rows: int) -> Copied:
    cpu_s = spark_cpu_s()
    writing = _stream(spark, broker, "bench-in", topic, mode, checkpoint)
    query = writing.trigger(availableNow=True).start()
    query.awaitTermination()
    cpu_s = spark_cpu_s() - cpu_s
    batches = [row for row in query.recentProgress if row["numInputRows"]]
    found = sum(row["numInputRows"] for row in batches)
    if found != rows:
        raise BenchError(f"{mode}: {found} of {rows} rows were copied")
    return Copied(sum(row["durationMs"]["triggerExecution"] for row in batches) / 1000, cpu_s)


def _latencies(spark: Any, broker: Broker, wire: Wire, mode: str, directory: str, count: int) -> list[float]:
    source, target = f"bench-from-{mode}", f"bench-to-{mode}"
    for topic in (source, target):
        wire.create_topic(topic, 1)
    query = _stream(spark, broker, source, target, mode, os.path.join(directory, target)).start()
    taken_ms = []
    for number in range(count + WARM_UP_RECORDS):
        row = pa.table({"value": [b"%d" % number]})
        began_s = time.perf_counter()
        write_arrow(row, source, bootstrap_servers=broker.address)
        while (
            len(read_arrow(target, bootstrap_servers=broker.address, columns=["value"]).read_all()) <= number
        ):
            if time.perf_counter() - began_s > TIMEOUT_S or not query.isActive:
                raise BenchError(f"the query does not copy: {query.exception()}")
            time.sleep(0.002)
        taken_ms.append((time.perf_counter() - began_s) * 1000)
    query.stop()
    return taken_ms[WARM_UP_RECORDS:]
