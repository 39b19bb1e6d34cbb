"""End-to-end latency from produce() to the consumer, at fixed rates, with linger 0."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from bench.batches import QUIET
from bench.broker import BenchError
from bench.peers.contest import Effort, Figures, Measure, Scenario, Stopwatch
from bench.peers.fleet import Fleet
from ottla.client import NewTopic

RATES = {"100/s": (100, 100), "1,000/s": (1000, 100), "10 MB/s": (10_000, 1000)}
PERCENTILES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9}
WARM_UP_SECONDS = 1.0  # clients connect and deliver queued records
WARM_UP_FACTOR = 4
WAIT_SECONDS = 30
STAMP_BYTES = 20


def latency(fleet: Fleet, effort: Effort) -> Figures:
    found: Figures = {}
    for name, (per_second, record_bytes) in RATES.items():
        records = max(20, int(per_second * effort.latency_seconds))
        before = int(per_second * WARM_UP_SECONDS)
        watch = Stopwatch(fleet)
        taken_ms = sorted(_at_rate(fleet, per_second, record_bytes, before + records)[before:])
        _, used = watch.stop()
        for label, percent in PERCENTILES.items():
            if len(taken_ms) * (100 - percent) < 100:
                continue  # less than one record beyond it: identical to the maximum
            at = min(len(taken_ms) - 1, int(len(taken_ms) * percent / 100))
            found[f"{name}: {label}"] = (taken_ms[at], Measure("ms", goal=1))
        found[f"{name}: CPU"] = (
            used.cpu_s / (before + records) * 1e6,
            Measure("server CPU us per record", aside=True),
        )
        found[f"{name}: switches"] = (
            used.switches / (before + records),
            Measure("context switches per record", aside=True),
        )
    return found


def warm_up(fleet: Fleet, effort: Effort) -> Figures:
    """Run longer and at the highest rate: a hundred records per second do not warm up the JVM."""
    per_second, record_bytes = RATES["10 MB/s"]
    records = int(per_second * effort.latency_seconds * WARM_UP_FACTOR)
    _at_rate(fleet, per_second, record_bytes, records)
    return {}


def _at_rate(fleet: Fleet, per_second: int, record_bytes: int, records: int) -> list[float]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

    topic = f"latency-{os.urandom(4).hex()}"
    fleet.create_topic(NewTopic(topic, 1, 1))
    fleet.await_in_sync(topic)
    consumer = Consumer({**QUIET, "bootstrap.servers": fleet.address, "group.id": "latency"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    taken_ms: list[float] = []
    reader = threading.Thread(target=_consume, args=(consumer, records, taken_ms), daemon=True)
    reader.start()
    producer = Producer({**QUIET, "bootstrap.servers": fleet.address, "linger.ms": 0, "acks": "all"})
    filling = b"." * (record_bytes - STAMP_BYTES)
    producer.list_topics(topic, 10)
    began_s = time.perf_counter()
    for number in range(records):
        due_s = began_s + number / per_second
        while (left_s := due_s - time.perf_counter()) > 0:
            producer.poll(left_s)
        producer.produce(topic, f"{time.perf_counter():<{STAMP_BYTES}.9f}".encode() + filling)
        producer.poll(0)
    producer.flush(WAIT_SECONDS)
    reader.join(WAIT_SECONDS)
    consumer.close()
    fleet.delete_topic(topic)
    if len(taken_ms) != records:
        raise BenchError(f"{len(taken_ms)} of {records} records arrived")
    return taken_ms


def _consume(consumer: Any, records: int, taken_ms: list[float]) -> None:
    while len(taken_ms) < records:
        message = consumer.poll(WAIT_SECONDS)
        if message is None or message.error():
            return
        taken_ms.append((time.perf_counter() - float(message.value()[:STAMP_BYTES])) * 1000)


SCENARIOS = (
    Scenario(
        "latency",
        "End-to-end latency, linger 0, acks=all, librdkafka",
        latency,
        warm_ups=3,
        warm_up=warm_up,
    ),
)
