"""Fail-over: the longest time in which a partition acknowledges no record after a broker is killed."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

from bench.background import Background
from bench.batches import QUIET
from bench.broker import BenchError, Launch
from bench.cluster import Cluster, wait_until
from bench.figures import Figure, rounded
from bench.sizes import Sizes
from ottla.client import NewTopic
from ottla.client.errors import ClientError

TOPIC = "bench"
PARTITIONS = 6
GOAL_S = 1.0
VALUE = bytes(1024)
LINGER_MS = 5
TURN_SECONDS = 0.005
QUEUED_MAX = 10_000
FRESH_SECONDS = 0.1  # before a kill, all partitions have acknowledged a record this recently
AFTER_SECONDS = 1.0  # observed after all partitions are back: there may be a second gap
STEADY_SECONDS = 0.5


class Load(Background):
    """An idempotent producer that sends a few records to every partition every few milliseconds.

    Not at full speed: the brokers and the client would compete for the cores, and the gap would reflect that.
    """

    def __init__(self, cluster: Cluster) -> None:
        from confluent_kafka import Producer

        config = {"bootstrap.servers": cluster.address, "enable.idempotence": True, "linger.ms": LINGER_MS}
        self._producer = Producer({**QUIET, **config})
        super().__init__()
        self.acks: list[list[float]] = [[] for _ in range(PARTITIONS)]  # times by partition
        self.acked_sent: list[float] = [0.0] * PARTITIONS  # when the last acknowledged record was sent
        self.failures: list[str] = []

    def is_fresh(self) -> bool:
        oldest = min([times[-1] if times else 0.0 for times in self.acks])
        return time.monotonic() - oldest < FRESH_SECONDS

    def has_acked_since(self, moment: float) -> bool:
        """Return whether every partition has acknowledged a record sent after this time."""
        return min(self.acked_sent) > moment

    def longest_gap_s(self, since: float) -> float:
        """Return the longest time between acknowledgements of any partition, up to now."""
        now = time.monotonic()
        longest = 0.0
        for times in self.acks:
            moments = [since, *[each for each in times if each > since], now]
            longest = max(longest, *[after - before for before, after in itertools.pairwise(moments)])
        return longest

    def _run(self) -> None:
        producer = self._producer
        while not self._ended.is_set():
            if len(producer) < QUEUED_MAX:
                for partition in range(PARTITIONS):
                    key = repr(time.monotonic()).encode()
                    producer.produce(TOPIC, VALUE, key, partition=partition, on_delivery=self._delivered)
            producer.poll(TURN_SECONDS)
        if producer.flush(30):
            self.failures.append("not all records were delivered")

    def _delivered(self, error: object, message: Any) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        partition = message.partition()
        self.acks[partition].append(time.monotonic())
        self.acked_sent[partition] = float(message.key())


def cluster_failover(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    leader_gaps_s: list[float] = []
    controller_gaps_s: list[float] = []
    changes_s: list[float] = []
    with Cluster(launch) as cluster:
        cluster.create_topic(NewTopic(TOPIC, PARTITIONS, 3))
        with Load(cluster) as load:
            for number in range(sizes.kills):
                controller = steady(cluster, load)
                others = [node_id for node_id in range(len(cluster.brokers)) if node_id != controller]
                leader_gaps_s.append(gap_s(cluster, load, others[number % len(others)]))
                controller_gaps_s.append(gap_s(cluster, load, steady(cluster, load), changes_s))
        if load.failures:
            raise BenchError(f"librdkafka: {len(load.failures)} records failed: {load.failures[0]}")
    seen = f"gap seen by an idempotent librdkafka producer, {PARTITIONS} partitions"
    yield from _distribution("fail-over, leader killed", leader_gaps_s, seen, GOAL_S)
    yield from _distribution("fail-over, controller and leader killed", controller_gaps_s, seen, GOAL_S)
    yield from _distribution("fail-over, controller killed", changes_s, "until a topic is created")


def steady(cluster: Cluster, load: Load) -> int:
    """Wait until the cluster is in its initial state and everything is acknowledged; return the
    controller."""
    cluster.await_in_sync(TOPIC, preferred=True)
    time.sleep(STEADY_SECONDS)
    controller = cluster.controller()
    wait_until(load.is_fresh, "every partition accepts records")
    return controller


def gap_s(cluster: Cluster, load: Load, victim: int, changes_s: list[float] | None = None) -> float:
    """Kill and restart; add to `changes_s` how long metadata could not be changed."""
    killed_at = time.monotonic()
    cluster.brokers[victim].kill()
    if changes_s is not None:
        wait_until(lambda: _creates_topic(cluster), "a topic is created")
        changes_s.append(time.monotonic() - killed_at)
    wait_until(lambda: load.has_acked_since(killed_at), "every partition accepts records again")
    time.sleep(AFTER_SECONDS)
    longest_s = load.longest_gap_s(killed_at)
    cluster.brokers[victim].start()
    return longest_s


def _creates_topic(cluster: Cluster) -> bool:
    try:
        cluster.create_topic(NewTopic(f"after-{time.monotonic_ns()}", 1, 1))
    except ClientError:
        return False
    return True


def _distribution(
    name: str, seconds: Sequence[float], what: str, goal_s: float | None = None
) -> Iterator[Figure]:
    ordered = sorted(seconds)
    note = f"{what}, {len(ordered)} kills: " + " ".join(map(rounded, ordered))
    yield Figure(f"{name}: median", statistics.median(ordered), "s", goal_s, note)
    yield Figure(f"{name}: p90", _percentile(ordered, 90), "s")
    yield Figure(f"{name}: longest", ordered[-1], "s")


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """Return a percentile."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
