"""Transactions of 100 ms over ten partitions, beside the same load without transactions."""

from __future__ import annotations

import os
import time
from typing import Any

from bench.batches import QUIET
from bench.broker import BenchError
from bench.peers.contest import GB, Effort, Figures, Measure, Scenario, Stopwatch
from bench.peers.fleet import Fleet
from bench.peers.scenarios.produce import texts
from ottla.client import NewTopic

PARTITIONS = 10
RECORD_BYTES = 1024
TRANSACTION_SECONDS = 0.1
GOAL = 0.7
WAIT_SECONDS = 60


def transactions(fleet: Fleet, effort: Effort) -> Figures:
    topic = f"transactions-{os.urandom(4).hex()}"
    fleet.create_topic(NewTopic(topic, PARTITIONS, 1))
    fleet.await_in_sync(topic)
    plain_s, plain_records, plain_cpu_s = _run(fleet, topic, effort, transactional=False)
    took_s, records, cpu_s = _run(fleet, topic, effort, transactional=True)
    fleet.delete_topic(topic)
    rate, plain_rate = records / took_s, plain_records / plain_s
    more = Measure("MB/s", less_is_better=False)
    return {
        "100 ms transactions: rate": (rate * RECORD_BYTES / 1e6, more._replace(goal=GOAL)),
        "100 ms transactions: CPU": (
            cpu_s / (records * RECORD_BYTES / GB),
            Measure("server CPU s per GB", goal=GOAL),
        ),
        "without transactions, idempotent: rate": (plain_rate * RECORD_BYTES / 1e6, more),
        "without transactions, idempotent: CPU": (
            plain_cpu_s / (plain_records * RECORD_BYTES / GB),
            Measure("server CPU s per GB"),
        ),
        "what transactions leave of the rate": (
            rate / plain_rate,
            Measure("of the idempotent rate", less_is_better=False),
        ),
    }


def _run(fleet: Fleet, topic: str, effort: Effort, *, transactional: bool) -> tuple[float, int, float]:
    """Seconds, records and server CPU of a producer that writes as fast as it may."""
    from confluent_kafka import Producer

    config: dict[str, Any] = {
        **QUIET,
        "bootstrap.servers": fleet.address,
        "enable.idempotence": True,
        "linger.ms": 5,
        "batch.size": 65_536,
        "queue.buffering.max.kbytes": 100_000,
    }
    if transactional:
        config["transactional.id"] = f"bench-{os.urandom(4).hex()}"
    producer = Producer(config)
    if transactional:
        producer.init_transactions(WAIT_SECONDS)
    pool = texts(RECORD_BYTES)
    watch = Stopwatch(fleet)
    end_s = time.perf_counter() + effort.transaction_seconds
    records = 0
    while time.perf_counter() < end_s:
        if transactional:
            producer.begin_transaction()
        records += _write(producer, topic, pool, time.perf_counter() + TRANSACTION_SECONDS)
        if transactional:
            producer.commit_transaction(WAIT_SECONDS)
    if producer.flush(WAIT_SECONDS):
        raise BenchError("not everything was delivered")
    took_s, used = watch.stop()
    return took_s, records, used.cpu_s


def _write(producer: Any, topic: str, pool: list[bytes], until_s: float) -> int:
    count = 0
    while time.perf_counter() < until_s:
        for _ in range(50):
            try:
                producer.produce(topic, pool[count % len(pool)], partition=count % PARTITIONS)
                count += 1
            except BufferError:
                producer.poll(0.005)
        producer.poll(0)
    return count


SCENARIOS = (Scenario("transactions", "Transactions of 100 ms over 10 partitions, librdkafka", transactions),)
