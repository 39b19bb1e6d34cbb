"""Transactions per second of one producer, and the latency that a commit adds to a write."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack

from bench.batches import VALUE_BYTES
from bench.broker import Broker, Launch
from bench.cluster import Cluster
from bench.figures import Figure, figure_of
from bench.meter import CpuMeter
from bench.sizes import Sizes
from bench.txn_wire import TxnProducer, coordinator_of, transactional_batch
from bench.wire import Wire
from ottla.client import NewTopic
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.produce_response import ProduceResponse
from ottla.records.build import build_batch

TOPIC = "bench"
RECORDS = (1, 10, 100)
PARTITIONS = (1, 10)
PLAIN_VERSION = 12


def rate(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    """Run transactions one after the other with one producer, with records in each partition."""
    with Broker(launch) as broker, Wire(broker) as wire:
        coordinator_of(wire, "bench")
        for partitions in PARTITIONS:
            topic = f"{TOPIC}-{partitions}"
            wire.create_topic(topic, partitions)
            for records in RECORDS:
                batches = [transactional_batch(records, VALUE_BYTES)] * partitions
                producer = TxnProducer(wire, wire, f"bench-{records}-{partitions}", topic, batches)
                yield _rate(broker, producer, sizes, records, partitions)


def _rate(broker: Broker, producer: TxnProducer, sizes: Sizes, records: int, partitions: int) -> Figure:
    count = max(5, sizes.transactions // partitions)
    for _ in range(max(2, count // 10)):
        producer.transaction()
    meter = CpuMeter(broker)
    per_second = []
    for _ in range(sizes.rounds):
        meter.begin()
        began_s = time.perf_counter()
        for _ in range(count):
            producer.transaction()
        per_second.append(count / (time.perf_counter() - began_s))
        meter.end()
    per_transaction = statistics.median(meter.total_s) / count * 1e6
    what = "1 record" if records == 1 else f"{records} records"
    where = "1 partition" if partitions == 1 else f"{partitions} partitions"
    return figure_of(
        f"transaction of {what} x {where}",
        [1000 / each for each in per_second],
        "ms",
        None,
        f"{statistics.median(per_second):,.0f} transactions/s, {per_transaction:.0f} us of broker CPU each",
    )


# -- latency of a commit


def commit(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    """One record in one partition, acks=all, with one broker and with three replicas on three brokers."""
    with Broker(launch) as broker, Wire(broker) as wire:
        coordinator_of(wire, "bench")
        wire.create_topic(TOPIC, 1)
        yield from _commit("1 broker", wire, wire, sizes)
    with Cluster(launch) as cluster, ExitStack() as stack:
        cluster.create_topic(NewTopic(TOPIC, 1, 3, assignments={0: [0, 1, 2]}))
        wires = [stack.enter_context(Wire(broker)) for broker in cluster.brokers]
        coordinator = coordinator_of(wires[0], "bench")
        yield from _commit("3 brokers", wires[0], wires[coordinator], sizes)


def _commit(name: str, leader: Wire, coordinator: Wire, sizes: Sizes) -> Iterator[Figure]:
    plain_ms = _plain_write_ms(leader, sizes)
    producer = TxnProducer(leader, coordinator, "bench", TOPIC, [transactional_batch(1, VALUE_BYTES)])
    for _ in range(3):
        producer.transaction()
    writes_ms, ends_ms = [], []
    for _ in range(sizes.commits_timed):
        began_s = time.perf_counter()
        producer.send()
        sent_s = time.perf_counter()
        producer.end()
        writes_ms.append((sent_s - began_s) * 1000)
        ends_ms.append((time.perf_counter() - sent_s) * 1000)
    plain = statistics.median(plain_ms)
    first = statistics.median(writes_ms)
    end = statistics.median(ends_ms)
    note = (
        f"first write {first:.2f} ms (calls the coordinator), EndTxn {end:.2f} ms; plain write {plain:.2f} ms"
    )
    yield Figure(f"commit, {name}: added to a write, median", first + end - plain, "ms", None, note)
    longest = sorted(w + e for w, e in zip(writes_ms, ends_ms, strict=True))[int(len(ends_ms) * 0.99)]
    yield Figure(f"commit, {name}: whole transaction, p99", longest, "ms")


def _plain_write_ms(wire: Wire, sizes: Sizes) -> list[float]:
    """Write without a transaction and without a producer id."""
    batch = build_batch([(time.time_ns() // 1_000_000, None, bytes(VALUE_BYTES), ())])
    data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
    took_ms = []
    for _ in range(sizes.commits_timed):
        began_s = time.perf_counter()
        answer = wire.call(PLAIN_VERSION, request, ProduceResponse)
        took_ms.append((time.perf_counter() - began_s) * 1000)
        assert answer.responses[0].partition_responses[0].error_code == 0
    return took_ms
