"""Many partitions with three replicas: creation, stop, start and idle cost."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator

from bench.batches import ONE_RECORD, QUIET
from bench.broker import BenchError, Launch
from bench.cases.cluster_start import idle_cpu
from bench.cluster import Cluster
from bench.figures import Figure, figure_of
from bench.meter import CpuMeter, rss_bytes
from bench.sizes import Sizes
from ottla.client import NewTopic

TOPIC = "many"
STARTS = 3
# The files of a replica without records.
REPLICA_FILES = ("partition.metadata", f"{0:020d}.log")
REPLICA_METADATA = bytes(43)
IDLE_GOAL_MS = 10  # one per cent of a core


def cluster_partitions(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    count = sizes.replicated_partitions
    name = f"{count:,} partitions x RF 3"
    with Cluster(launch) as cluster:
        yield _create(cluster, NewTopic(TOPIC, count, 3), name)
        yield _floor(launch, count, name)
        yield _write_to_all(cluster, count, name)
        stops_s, starts_s, in_sync_s = [], [], []
        for _ in range(min(STARTS, sizes.starts)):
            stops_s.append(cluster.stop())
            began_s = time.perf_counter()
            cluster.start()
            starts_s.append(cluster.start_s)
            cluster.await_in_sync(TOPIC)
            in_sync_s.append(time.perf_counter() - began_s)
        yield figure_of(f"{name}: clean stop", stops_s, "s", None, "all brokers at once")
        yield figure_of(f"{name}: start after a clean stop", starts_s, "s", None, "all brokers at once")
        yield figure_of(f"{name}: start to all replicas in sync", in_sync_s, "s")
        cluster.await_in_sync(TOPIC, preferred=True)
        yield idle_cpu(cluster, f"{name}: idle CPU, leaders everywhere", sizes)
        memory_mb = [rss_bytes(broker) / 1e6 for broker in cluster.brokers]
        yield figure_of(f"{name}: memory of a broker", memory_mb, "MB RSS")
    with Cluster(launch) as cluster:
        assignments = {number: [0, 1 + number % 2, 2 - number % 2] for number in range(count)}
        _create(cluster, NewTopic(TOPIC, assignments=assignments), name)
        yield idle_cpu(
            cluster, f"{name}: idle CPU, broker 0 leads", sizes, IDLE_GOAL_MS, "1 and 2 only follow"
        )


def _create(cluster: Cluster, topic: NewTopic, name: str) -> Figure:
    """Measure from the request until every broker has its replicas and all are in the ISR."""
    count = len(topic.assignments) or topic.partitions
    meters = [CpuMeter(broker) for broker in cluster.brokers]
    began_s = time.perf_counter()
    cluster.create_topic(topic)
    answered_s = time.perf_counter() - began_s
    cluster.await_hosted(TOPIC, count)
    cluster.await_in_sync(TOPIC)
    took_s = time.perf_counter() - began_s
    used_s = sum([meter.end() for meter in meters])
    note = f"one request, answered after {answered_s:.2f} s; {used_s:.2f} s CPU of all brokers"
    return Figure(f"{name}: create", took_s, "s", None, note)


def _floor(launch: Launch, count: int, name: str) -> Figure:
    """Measure the cost of the file system: creating a file can take a hundred times longer on some."""
    used_s = time.process_time()
    began_s = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="ottla-bench-floor-", dir=launch.data_root) as root:
        for number in range(count * 3):
            directory = os.path.join(root, str(number))
            os.mkdir(directory)
            for file_name in REPLICA_FILES:
                with open(os.path.join(directory, file_name), "wb", buffering=0) as file:
                    file.write(b"" if file_name.endswith(".log") else REPLICA_METADATA)
        took_s = time.perf_counter() - began_s
        used_s = time.process_time() - used_s
    note = f"directories with {len(REPLICA_FILES)} files, one after the other; {used_s:.2f} s CPU"
    return Figure(f"floor: make the files of {name}", took_s, "s", None, note)


def _write_to_all(cluster: Cluster, count: int, name: str) -> Figure:
    """Write the first record of each partition, which needs all followers to fetch from their leaders."""
    from confluent_kafka import Producer

    client = Producer({**QUIET, "bootstrap.servers": cluster.address, "batch.num.messages": ONE_RECORD})
    failures: list[str] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(str(error))

    began_s = time.perf_counter()
    for number in range(count):
        client.produce(TOPIC, b"first", partition=number, on_delivery=delivered)
        client.poll(0)
    if client.flush(60) or failures:
        raise BenchError(f"librdkafka: not all records were delivered: {failures[:1]}")
    return Figure(
        f"{name}: first record of each", time.perf_counter() - began_s, "s", None, "acks=all, librdkafka"
    )
