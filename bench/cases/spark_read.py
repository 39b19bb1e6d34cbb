"""Spark reading topics: CPU and rows per second, compared with prebuilt batches and Spark's own connector.

Every round reads the same rows with each source in turn. The ratio is the relevant figure, because load on a
shared machine affects all of them. CPU is that of the JVM and of Python workers, without the broker.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from bench.broker import BenchError, Broker, Launch
from bench.figures import Figure, figure_of
from bench.sizes import Sizes
from bench.spark_session import connector, spark_cpu_s, spark_session
from bench.wire import Wire
from ottla.client import read_arrow, write_arrow
from ottla.records.compression import CODEC_NAMES

PARTITIONS = 2
VALUE_BYTES = (100, 1000)
CPU = "CPU s per M rows"
SPEED = "M rows/s"
OF_THE_BOUND_MIN = 0.6
OF_THE_CONNECTOR_MIN = 1.5
FIRST_WARM_UPS = 8  # until the JVM has compiled the code
WARM_UPS = 2


class Used(NamedTuple):
    cpu_s: float
    wall_s: float


def spark_read(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    from bench.prebuilt_source import PrebuiltSource

    spark = spark_session()
    spark.dataSource.register(PrebuiltSource)
    warm_ups = FIRST_WARM_UPS
    with Broker(launch) as broker, Wire(broker) as wire:
        for value_bytes in VALUE_BYTES[: sizes.spark_rounds]:
            rows = sizes.spark_rows * 100 // max(value_bytes, 300)
            table = _table(rows, value_bytes)
            for codec in list(CODEC_NAMES)[: sizes.spark_codecs]:
                topic = f"bench-{value_bytes}-{codec}"
                wire.create_topic(topic, PARTITIONS)
                write_arrow(table, topic, bootstrap_servers=broker.address, compression=codec)
                ways = _ways(spark, broker, topic, rows, value_bytes)
                used = _rounds(ways, rows, sizes.spark_rounds, warm_ups)
                warm_ups = WARM_UPS
                yield from _figures(used, rows, f"{value_bytes} B, {codec}")


def _ways(
    spark: Any, broker: Broker, topic: str, rows: int, value_bytes: int
) -> dict[str, Callable[[], Any]]:
    def from_topic(format_name: str) -> Any:
        reader = spark.read.format(format_name).option("kafka.bootstrap.servers", broker.address)
        return reader.option("subscribe", topic).load()

    def prebuilt() -> Any:
        given = {"rows": rows, "value_bytes": value_bytes, "partitions": PARTITIONS}
        return spark.read.format("prebuilt").options(**given).load()

    ways: dict[str, Callable[[], Any]] = {"ottla": lambda: from_topic("ottla"), "bound": prebuilt}
    if connector() is not None:
        ways["connector"] = lambda: from_topic("kafka")
    return ways


def _rounds(
    ways: Mapping[str, Callable[[], Any]], rows: int, rounds: int, warm_ups: int
) -> dict[str, list[Used]]:
    for way, make in ways.items():
        found = make().count()
        if found != rows:
            raise BenchError(f"{way}: {found} of {rows} rows arrived")
    for _ in range(warm_ups):
        for make in ways.values():
            _read(make())
    used: dict[str, list[Used]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, make in ways.items():
            used[way].append(_read(make()))
    return used


def _figures(used: Mapping[str, list[Used]], rows: int, label: str) -> Iterator[Figure]:
    for way, rounds in used.items():
        cpu = [each.cpu_s / rows * 1e6 for each in rounds]
        speed = [rows / each.wall_s / 1e6 for each in rounds]
        yield figure_of(f"spark read, {way}, {label}: CPU", cpu, CPU)
        yield figure_of(f"spark read, {way}, {label}: speed", speed, SPEED, more_is_better=True)
    for other, goal in (("bound", OF_THE_BOUND_MIN), ("connector", OF_THE_CONNECTOR_MIN)):
        if other in used:
            name = f"spark read, times the {other}, {label}"
            yield from _ratios(used["ottla"], used[other], name, goal)


def _ratios(ours: list[Used], theirs: list[Used], name: str, goal: float) -> Iterator[Figure]:
    """Return how many times better the first is, for each round."""
    pairs = list(zip(ours, theirs, strict=True))
    cpu = [two.cpu_s / one.cpu_s for one, two in pairs]
    speed = [two.wall_s / one.wall_s for one, two in pairs]
    yield figure_of(f"{name}: CPU", cpu, "times", goal, more_is_better=True)
    yield figure_of(f"{name}: speed", speed, "times", goal, more_is_better=True)


def _read(frame: Any) -> Used:
    cpu_s, wall_s = spark_cpu_s(), time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return Used(spark_cpu_s() - cpu_s, time.perf_counter() - wall_s)


def _table(rows: int, value_bytes: int) -> pa.Table:
    """Return a table whose values compress about as well as JSON."""
    half = [os.urandom(value_bytes // 4).hex().encode() for _ in range(1000)]
    values = [b"%s%0*d" % (half[row % 1000], value_bytes // 2, row) for row in range(rows)]
    partitions = pa.array([row % PARTITIONS for row in range(rows)], pa.int32())
    return pa.table(
        {"key": [b"key %d" % (row % 10_000) for row in range(rows)], "value": values, "partition": partitions}
    )


def spark_latency(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    """Measure from a record's append to its copy in another topic, with a continuous query."""
    spark = spark_session()
    with tempfile.TemporaryDirectory() as directory, Broker(launch) as broker, Wire(broker) as wire:
        for topic in ("bench-in", "bench-out"):
            wire.create_topic(topic, 1)
        query = (
            spark.readStream.format("ottla")
            .option("kafka.bootstrap.servers", broker.address)
            .option("subscribe", "bench-in")
            .option("startingOffsets", "earliest")
            .load()
            .writeStream.format("ottla")
            .option("kafka.bootstrap.servers", broker.address)
            .option("topic", "bench-out")
            .option("checkpointLocation", os.path.join(directory, "checkpoint"))
            .start()
        )
        taken_ms = []
        for number in range(sizes.spark_latencies + 3):
            row = pa.table({"value": [b"%d" % number]})
            began_s = time.perf_counter()
            write_arrow(row, "bench-in", bootstrap_servers=broker.address)
            while (
                not read_arrow("bench-out", start=number, bootstrap_servers=broker.address)
                .read_all()
                .num_rows
            ):
                if time.perf_counter() - began_s > 60 or not query.isActive:
                    raise BenchError(f"the query does not copy: {query.exception()}")
                time.sleep(0.002)
            taken_ms.append((time.perf_counter() - began_s) * 1000)
        query.stop()
        # The first records include the start of workers.
        yield figure_of("spark latency, append to sink", taken_ms[3:], "ms")
