"""Transactions of 100 ms over ten partitions, compared with the same load without transactions."""

from __future__ import annotations

import os
import time
from typing import Any

from bench.batches import QUIET
from bench.broker import BenchError
from bench.meter import ready_page_cache
from bench.peers.contest import Effort, Figures, Measure, Scenario, Stopwatch
from bench.peers.costs import moved
from bench.peers.fleet import Fleet
from bench.peers.scenarios.produce import texts
from bench.peers.usage import Usage
from ottla.client import NewTopic

PARTITIONS = 10
RECORD_BYTES = 1024
TRANSACTION_SECONDS = 0.1
GOAL = 0.7
WAIT_SECONDS = 60
BYTES_PER_SECOND_MAX = 400_000_000  # more than this client can produce


def transactions(fleet: Fleet, effort: Effort) -> Figures:
    topic = f"transactions-{os.urandom(4).hex()}"
    fleet.create_topic(NewTopic(topic, PARTITIONS, 1))
    fleet.await_in_sync(topic)
    plain_s, plain_bytes, plain_used = _run(fleet, topic, effort, transactional=False)
    took_s, nbytes, used = _run(fleet, topic, effort, transactional=True)
    fleet.delete_topic(topic)
    name = "100 ms transactions"
    found = moved(name, nbytes, took_s, used, GOAL)
    rate, measure = found[f"{name}: rate"]
    found[f"{name}: rate"] = (rate, measure._replace(goal=GOAL))
    left = (nbytes / took_s) / (plain_bytes / plain_s)
    return {
        **found,
        **moved("without transactions, idempotent", plain_bytes, plain_s, plain_used),
        "what transactions leave of the rate": (
            left,
            Measure("of the idempotent rate", less_is_better=False),
        ),
    }


def _run(fleet: Fleet, topic: str, effort: Effort, *, transactional: bool) -> tuple[float, int, Usage]:
    """Return seconds, bytes and server usage of a producer at full speed."""
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
    ready_page_cache(fleet.directory, int(effort.transaction_seconds * BYTES_PER_SECOND_MAX), 1_000_000)
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
        raise BenchError("not all records were delivered")
    took_s, used = watch.stop()
    return took_s, records * RECORD_BYTES, used


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
