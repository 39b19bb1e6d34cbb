"""Many partitions on one broker: creation, start, idle cost and metadata requests."""

from __future__ import annotations

import time

from bench.batches import QUIET
from bench.broker import BenchError
from bench.peers.contest import Effort, Figures, Measure, Scenario, Stopwatch
from bench.peers.fleet import METADATA_VERSION, Fleet, Peer
from bench.peers.usage import resident_bytes
from bench.wire import Wire
from ottla.client import NewTopic
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.metadata_response import MetadataResponse

TOPIC_PARTITIONS_MAX = 5_000  # Kafka's controller refuses 10,000 at a time
SETTLE_SECONDS = 3.0
METADATA_CALLS = 20
DELIVERY_SECONDS_MAX = 280.0


def partitions(peer: Peer, effort: Effort) -> Figures:
    found: Figures = {}
    for count in effort.partitions:
        with peer.fleet() as fleet:
            found |= _with(fleet, effort, count)
    return found


def _with(fleet: Fleet, effort: Effort, count: int) -> Figures:
    name = f"{count:,} partitions"
    watch = Stopwatch(fleet)
    began_s = time.perf_counter()
    topics = _topics(count)
    for topic, size in topics.items():
        fleet.create_topic(NewTopic(topic, size, 1))
    _write_to(fleet, topics)
    created_s, create_used = time.perf_counter() - began_s, watch.stop()[1]
    fleet.stop()
    began_s = time.perf_counter()
    fleet.brokers[0].begin_start()
    fleet.brokers[0].await_ready()
    _write_to(fleet, topics)
    restart_s = time.perf_counter() - began_s
    time.sleep(SETTLE_SECONDS)
    watch = Stopwatch(fleet)
    time.sleep(effort.idle_seconds)
    idle_s, idle = watch.stop()
    with Wire(fleet.brokers[0]) as wire:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic) for topic in topics])
        wire.call(METADATA_VERSION, request, MetadataResponse)
        watch = Stopwatch(fleet)
        for _ in range(METADATA_CALLS):
            answer = wire.call(METADATA_VERSION, request, MetadataResponse)
        _, named = watch.stop()
    named_count = sum(len(topic.partitions) for topic in answer.topics)
    if named_count != count:
        raise BenchError(f"{named_count} of {count} partitions are in the metadata")
    return {
        f"{name}: created and written to": (created_s, Measure("s", goal=1)),
        f"{name}: CPU to create": (create_used.cpu_s, Measure("CPU s")),
        f"{name}: written to create": (create_used.written_bytes / 1e6, Measure("MB", aside=True)),
        f"{name}: restart until written to": (restart_s, Measure("s", goal=1)),
        f"{name}: idle CPU": (idle.cpu_s / idle_s * 1000, Measure("ms per s", goal=1)),
        f"{name}: idle switches": (idle.switches / idle_s, Measure("context switches per s", aside=True)),
        f"{name}: memory": (resident_bytes(fleet.pids) / 1e6, Measure("MB RSS", goal=1)),
        f"{name}: metadata request": (
            named.cpu_s / METADATA_CALLS * 1000,
            Measure("server CPU ms", goal=1),
        ),
    }


def _topics(count: int) -> dict[str, int]:
    """Return the topics and their numbers of partitions."""
    starts = range(0, count, TOPIC_PARTITIONS_MAX)
    return {f"many-{start}": min(TOPIC_PARTITIONS_MAX, count - start) for start in starts}


def _write_to(fleet: Fleet, topics: dict[str, int]) -> None:
    """Write to the first, the middle and the last partition of each topic."""
    from confluent_kafka import Producer

    failures: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    # Kafka's controller responds at once; its broker needs a minute or more to create the directories.
    patience = {"topic.metadata.propagation.max.ms": int(DELIVERY_SECONDS_MAX * 1000)}
    producer = Producer({**QUIET, **patience, "bootstrap.servers": fleet.address, "linger.ms": 0})
    for topic, size in topics.items():
        for number in {0, size // 2, size - 1}:
            producer.produce(topic, b"there", partition=number, on_delivery=delivered)
    if producer.flush(DELIVERY_SECONDS_MAX) or failures:
        raise BenchError(f"not written: {failures}")


SCENARIOS = (Scenario("partitions", "Many partitions on one broker", alone=partitions, rounds_max=3),)
