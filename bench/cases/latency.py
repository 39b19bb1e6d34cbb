"""End-to-end latency from produce() to the consumer, at a low rate."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

from bench.batches import ONE_RECORD, QUIET, producer
from bench.broker import BenchError, Broker, Launch
from bench.figures import Figure
from bench.sizes import Sizes
from bench.wire import Wire

TOPIC = "bench"
PER_SECOND = 200
WARM_UP_RECORDS = 20


def latency(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    """librdkafka on both sides, linger.ms=0, acks=all."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    records = WARM_UP_RECORDS + int(sizes.latency_seconds * PER_SECOND)
    with Broker(launch) as broker, Wire(broker) as wire:
        wire.create_topic(TOPIC)
        consumer = Consumer({**QUIET, "bootstrap.servers": broker.address, "group.id": "bench"})
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        taken_ms: list[float] = []
        reader = threading.Thread(target=_consume, args=(consumer, records, taken_ms), daemon=True)
        reader.start()
        client = producer(broker, ONE_RECORD, linger_ms=0)
        for number in range(records):
            client.produce(TOPIC, str(time.perf_counter()).encode())
            client.poll(0)
            time.sleep(0.05 if number < WARM_UP_RECORDS else 1 / PER_SECOND)
        client.flush(30)
        reader.join(30)
        consumer.close()
    if len(taken_ms) != records:
        raise BenchError(f"{len(taken_ms)} of {records} records arrived")
    taken_ms = sorted(taken_ms[WARM_UP_RECORDS:])
    note = f"{PER_SECOND} records/s, librdkafka to librdkafka, acks=all"
    for percent in (50, 99):
        at = min(len(taken_ms) - 1, len(taken_ms) * percent // 100)
        yield Figure(f"latency, end to end, p{percent}", taken_ms[at], "ms", None, note)


def _consume(consumer: Any, records: int, taken_ms: list[float]) -> None:
    while len(taken_ms) < records:
        message = consumer.poll(10)
        if message is None or message.error():
            return
        taken_ms.append((time.perf_counter() - float(message.value())) * 1000)
