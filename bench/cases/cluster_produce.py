"""The cost of replication: the same producer and brokers with one and three replicas, alternating."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from bench.batches import (
    BATCH_SIZES,
    VALUE_BYTES,
    average_batch_bytes,
    produce_records,
    producer,
    values,
)
from bench.broker import Launch
from bench.cases.floor import STORE_SIZES, sent_file, stored
from bench.cluster import Cluster
from bench.figures import Figure, figure_of, rounded
from bench.meter import CpuMeter, ready_page_cache
from bench.sizes import Sizes
from ottla.client import NewTopic

BATCH = "64 KB"
ONE, THREE = "one-copy", "three-copies"
# Broker 0 leads all partitions, so that the other brokers only follow.
REPLICAS = {ONE: [0], THREE: [0, 1, 2]}


class Rounds:
    """Measurements of one topic."""

    def __init__(self, cluster: Cluster, client: Any, topic: str, sizes: Sizes) -> None:
        self._cluster = cluster
        self._client = client
        self.topic = topic
        self._records = max(10, sizes.replicated_bytes // VALUE_BYTES)
        self._gigabytes = self._records * VALUE_BYTES / 1e9
        self.megabytes_per_s: list[float] = []
        self.client_cpu: list[float] = []  # CPU s per GB
        self.meters = [CpuMeter(broker) for broker in cluster.brokers]
        replicas = REPLICAS[topic]
        config = {"min.insync.replicas": str(max(1, len(replicas) - 1))}
        cluster.create_topic(NewTopic(topic, 1, configs=config, assignments={0: replicas}))

    def warm_up(self, pool: list[bytes]) -> None:
        produce_records(self._client, self.topic, pool, max(10, self._records // 4))

    def measure(self, pool: list[bytes]) -> None:
        copies = len(REPLICAS[self.topic])
        nbytes = self._records * VALUE_BYTES
        ready_page_cache(self._cluster.directory, nbytes * (copies + 1), BATCH_SIZES[BATCH])
        for meter in self.meters:
            meter.begin()
        began_s, client_began_s = time.perf_counter(), time.process_time()
        produce_records(self._client, self.topic, pool, self._records)
        self.megabytes_per_s.append(nbytes / 1e6 / (time.perf_counter() - began_s))
        self.client_cpu.append((time.process_time() - client_began_s) / self._gigabytes)
        for meter in self.meters:
            meter.end()

    def cpu_per_gb(self, *brokers: int) -> list[float]:
        """Return the sum of the CPU time of these brokers for each round."""
        rows = zip(*[self.meters[broker].total_s for broker in brokers], strict=True)
        return [sum(row) / self._gigabytes for row in rows]


def cluster_produce(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    """acks=all, which is librdkafka's default; the producer shares the machine with the three brokers."""
    pool = values()
    with Cluster(launch) as cluster:
        client = producer(cluster, BATCH_SIZES[BATCH])
        three = Rounds(cluster, client, THREE, sizes)
        if launch.profiles is not None:
            three.warm_up(pool)
            for _ in range(sizes.replicated_rounds):
                three.measure(pool)  # only this topic, so that the leader's profile shows one workload
            yield _throughput("RF 3", three, cluster)
            return
        one = Rounds(cluster, client, ONE, sizes)
        for rounds in (one, three):
            rounds.warm_up(pool)
        for _ in range(sizes.replicated_rounds):
            one.measure(pool)
            three.measure(pool)
        yield _throughput("RF 1", one, cluster)
        yield _throughput("RF 3", three, cluster)
    shares = [
        100 * with_three / with_one
        for with_one, with_three in zip(one.megabytes_per_s, three.megabytes_per_s, strict=True)
    ]
    yield figure_of("replicated produce 64 KB, RF 3 of RF 1", shares, "% of MB/s", None, "pair by pair")
    yield from _cpu(one, three)
    yield _floor(launch, sizes)


def _throughput(name: str, rounds: Rounds, cluster: Cluster) -> Figure:
    average = average_batch_bytes(cluster.brokers[0], rounds.topic)
    note = (
        f"acks=all, librdkafka, {os.cpu_count()} cores for all; batches of {average / 1000:.1f} kB; "
        f"the client itself: {rounded(statistics.median(rounds.client_cpu))} CPU s per GB"
    )
    return figure_of(f"replicated produce 64 KB, {name}", rounds.megabytes_per_s, "MB/s", None, note)


def _cpu(one: Rounds, three: Rounds) -> Iterator[Figure]:
    unit = "CPU s per GB"
    yield figure_of("replicated produce 64 KB, RF 1: CPU of all brokers", one.cpu_per_gb(0, 1, 2), unit)
    yield figure_of("replicated produce 64 KB, RF 3: CPU of all brokers", three.cpu_per_gb(0, 1, 2), unit)
    leader = three.cpu_per_gb(0)
    yield figure_of("replicated produce 64 KB, RF 3: leader", leader, unit, None, three.meters[0].system_note)
    followers = three.cpu_per_gb(1) + three.cpu_per_gb(2)
    note = f"each of two; {three.meters[1].system_note}"
    yield figure_of("replicated produce 64 KB, RF 3: follower", followers, unit, None, note)
    extra = [
        with_three - with_one
        for with_one, with_three in zip(one.cpu_per_gb(0, 1, 2), three.cpu_per_gb(0, 1, 2), strict=True)
    ]
    note = "what RF 3 costs above RF 1, two copies"
    yield figure_of("replicated produce 64 KB: replication", extra, unit, None, note)


def _floor(launch: Launch, sizes: Sizes) -> Figure:
    """Return the cost of the simplest servers: three times receive and append, twice send."""
    frame_bytes = STORE_SIZES[BATCH]
    count = max(1, sizes.produce_bytes // frame_bytes)
    with tempfile.TemporaryDirectory(prefix="ottla-bench-floor-", dir=launch.data_root) as directory:
        path = os.path.join(directory, "file")
        used = stored(path, frame_bytes, count, sizes.rounds, in_flight=5)
        storing = statistics.median(used) / (count * frame_bytes / 1e9)
        with open(path, "wb") as file:
            for _ in range(count):
                file.write(os.urandom(frame_bytes))
        sending = statistics.median(sent_file(path, count * frame_bytes, sizes.rounds))
    note = f"3 x receive and append 64 KB ({rounded(storing)}), 2 x send 1 MB ({rounded(sending)})"
    return Figure("floor: RF 3", 3 * storing + 2 * sending, "CPU s per GB", None, note)
