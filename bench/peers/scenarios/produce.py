"""Produce on one broker: record and batch sizes, codecs, partitions, acks; and on three, replicated."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from bench.batches import BATCH_SIZES, QUIET, produce_records
from bench.meter import ready_page_cache
from bench.peers.contest import Effort, Figures, Scenario, Shapes, Stopwatch
from bench.peers.costs import moved
from bench.peers.fleet import Fleet
from ottla.client import NewTopic

RECORD_SIZES = {"100 B": 100, "1 KB": 1024, "100 KB": 102_400}
CODECS = ("none", "lz4", "zstd")
PARTITIONS = (1, 100)
ACKS = ("1", "all")
REPLICAS_IN_SYNC = {"min.insync.replicas": "2"}
SMALL_RECORD_SHARE = 5  # of the bytes: the client is the bottleneck with small records


class Shape(NamedTuple):
    record: str = "1 KB"
    batch: str = "64 KB"
    codec: str = "none"
    partitions: int = 1
    acks: str = "all"

    def __str__(self) -> str:
        noun = "partition" if self.partitions == 1 else "partitions"
        codec = "" if self.codec == "none" else f", {self.codec}"
        return f"{self.record} in {self.batch}, {self.partitions} {noun}, acks={self.acks}{codec}"


def shapes(effort: Effort) -> Iterator[Shape]:
    """Vary one dimension at a time, or fewer or all combinations, depending on the effort."""
    if effort.shapes is Shapes.EVERY:
        every = itertools.product(RECORD_SIZES, BATCH_SIZES, CODECS, PARTITIONS, ACKS)
        yield from itertools.starmap(Shape, every)
        return
    middle = Shape()
    yield middle
    yield from [middle._replace(batch=batch) for batch in BATCH_SIZES if batch != middle.batch]
    if effort.shapes is Shapes.FEW:
        return
    yield middle._replace(record="100 B")
    yield middle._replace(record="100 KB")
    yield middle._replace(record="100 KB", batch="1 MB")
    yield from [middle._replace(codec=codec) for codec in CODECS if codec != middle.codec]
    yield middle._replace(partitions=100)
    yield from [middle._replace(acks="1", batch=batch) for batch in BATCH_SIZES]


def one_broker(fleet: Fleet, effort: Effort) -> Figures:
    found: Figures = {}
    for shape in shapes(effort):
        found |= _produce(fleet, effort, shape, replicas=1)
    return found


def replicated(fleet: Fleet, effort: Effort) -> Figures:
    found: Figures = {}
    for batch in BATCH_SIZES:
        found |= _produce(fleet, effort, Shape(batch=batch, partitions=6), replicas=3)
    return found


def _produce(fleet: Fleet, effort: Effort, shape: Shape, replicas: int) -> Figures:
    topic = f"produce-{os.urandom(6).hex()}"
    fleet.create_topic(NewTopic(topic, shape.partitions, replicas))
    fleet.await_in_sync(topic)
    record_bytes = RECORD_SIZES[shape.record]
    nbytes = effort.produce_bytes // (SMALL_RECORD_SHARE if shape.record == "100 B" else 1)
    records = max(1, nbytes // record_bytes)
    client = producer(fleet, shape)
    pool = texts(record_bytes)
    produce_records(client, topic, pool, min(records, 200))  # connect and load metadata
    ready_page_cache(fleet.directory, nbytes * replicas, 1_000_000)
    watch = Stopwatch(fleet)
    produce_records(client, topic, pool, records)
    took_s, used = watch.stop()
    client.flush(10)
    fleet.delete_topic(topic)
    return moved(str(shape), records * record_bytes, took_s, used, goal=1)


def producer(fleet: Fleet, shape: Shape) -> Any:
    from confluent_kafka import Producer

    return Producer(
        {
            **QUIET,
            "bootstrap.servers": fleet.address,
            "batch.size": max(BATCH_SIZES[shape.batch], RECORD_SIZES[shape.record] + 1000),
            "batch.num.messages": 1_000_000,
            "linger.ms": 50,
            "acks": shape.acks,
            "compression.type": shape.codec,
            "queue.buffering.max.kbytes": 400_000,
            "queue.buffering.max.messages": 2_000_000,
        }
    )


def texts(nbytes: int, distinct: int = 256) -> list[bytes]:
    """Return values that compress about as well as JSON: to about a third."""
    chance = random.Random(nbytes)
    words = [bytes(chance.choices(b"abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(200)]
    if nbytes > 10_000:
        distinct = 32
    found = []
    for _ in range(distinct):
        text = b" ".join(chance.choices(words, k=nbytes // 8 + 1))
        found.append(text[:nbytes])
    return found


SCENARIOS = (
    Scenario("produce", "Produce to one broker, librdkafka", one_broker),
    Scenario(
        "produce-replicated",
        "Produce to three brokers, RF 3, acks=all, min ISR 2, 6 partitions, librdkafka",
        replicated,
        brokers=3,
        settings=REPLICAS_IN_SYNC,
        rounds_max=3,
    ),
)
