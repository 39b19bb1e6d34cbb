"""Consumer groups: many members at once, a rolling restart, and commits of offsets."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
from typing import Any

from bench.batches import QUIET
from bench.broker import BenchError
from bench.cases.group_members import PARTITIONS_PER_MEMBER, classic_join, consumer_join
from bench.cases.group_members import TOPIC as JOIN_TOPIC
from bench.cases.group_offsets import await_coordinator, check_commit, commit_frame
from bench.peers.blast import blast
from bench.peers.contest import Effort, Figures, Measure, Scenario, Stopwatch
from bench.peers.costs import answered
from bench.peers.fleet import Fleet
from bench.wire import Wire
from ottla.client import NewTopic

COMMIT_GROUP = "single"
COMMITS_IN_FLIGHT = 64
ROLLING_MEMBERS = 4
ROLLING_TOPIC = "rolling"
ROLLING_PARTITIONS = 12
STABLE_SECONDS_MAX = 60
# As in Kafka's development configuration; the initial delay would hide everything else.
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


def groups(fleet: Fleet, effort: Effort) -> Figures:
    node = fleet.brokers[0]
    if not os.path.isdir(os.path.join(node.data_dir, f"{JOIN_TOPIC}-0")):
        fleet.create_topic(NewTopic(JOIN_TOPIC, effort.members * PARTITIONS_PER_MEMBER, 1))
        fleet.create_topic(NewTopic(ROLLING_TOPIC, ROLLING_PARTITIONS, 1))
        with Wire(node) as wire:
            await_coordinator(wire, COMMIT_GROUP)
    found: Figures = {}
    name = f"{effort.members} members join"
    for protocol, join in (("classic", classic_join), ("KIP-848", consumer_join)):
        watch = Stopwatch(fleet)
        took_s = asyncio.run(join(node, f"{protocol}-{os.urandom(4).hex()}", effort.members))
        _, used = watch.stop()
        found[f"{name}, {protocol}: until all have partitions"] = (took_s, Measure("s"))
        found[f"{name}, {protocol}: CPU"] = (used.cpu_s, Measure("server CPU s"))
        switches = Measure("context switches", aside=True)
        found[f"{name}, {protocol}: switches"] = (used.switches, switches)
    for protocol in ("classic", "consumer"):
        found[f"rolling restart of {ROLLING_MEMBERS}, {protocol}: longest time a partition stands still"] = (
            _rolling(fleet, protocol),
            Measure("s"),
        )
    return found | _commits(fleet, effort)


def _commits(fleet: Fleet, effort: Effort) -> Figures:
    node = fleet.brokers[0]
    frame = commit_frame(COMMIT_GROUP, range(1), 7, None)
    with Wire(node) as wire:
        answer_bytes = check_commit(wire.exchange(frame))
    watch = Stopwatch(fleet)
    took_s = blast(
        node.host_and_port[1],
        frame,
        answer_bytes,
        connections=1,
        in_flight=COMMITS_IN_FLIGHT,
        requests=effort.commits,
    )
    _, used = watch.stop()
    return answered("offset commits", effort.commits, "commit", took_s, used)


# -- rolling restart


class Member:
    """A consumer in a thread that records when it last read from each partition."""

    def __init__(
        self, fleet: Fleet, group: str, protocol: str, name: str, seen: dict[int, list[float]]
    ) -> None:
        from confluent_kafka import Consumer

        config: dict[str, Any] = {
            **QUIET,
            "bootstrap.servers": fleet.address,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": name,
            "auto.offset.reset": "latest",
        }
        if protocol == "classic":
            config["partition.assignment.strategy"] = "cooperative-sticky"
        self._consumer = Consumer(config)
        self._consumer.subscribe([ROLLING_TOPIC])
        self._seen = seen
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.05)
            if message is not None and not message.error():
                self._seen[message.partition() or 0].append(time.monotonic())
        self._consumer.close()

    def end(self) -> None:
        self._stop.set()
        self._thread.join()


def _rolling(fleet: Fleet, protocol: str) -> float:
    """Restart members one after the other, while every partition gets a record every 10 ms."""
    group = f"rolling-{protocol}-{os.urandom(4).hex()}"
    seen: dict[int, list[float]] = {number: [] for number in range(ROLLING_PARTITIONS)}
    stop = threading.Event()
    writer = threading.Thread(target=_write, args=(fleet, stop), daemon=True)
    writer.start()
    members = [Member(fleet, group, protocol, f"member-{n}", seen) for n in range(ROLLING_MEMBERS)]
    try:
        _await_all(seen, time.monotonic())
        began_s = time.monotonic()
        for seat in range(ROLLING_MEMBERS):
            members[seat].end()
            members[seat] = Member(fleet, group, protocol, f"member-{seat}", seen)
            _await_all(seen, time.monotonic())
            time.sleep(0.5)
    finally:
        for member in members:
            member.end()
        stop.set()
        writer.join()
    return max(
        after - before
        for times in seen.values()
        for before, after in itertools.pairwise(times)
        if after > began_s
    )


def _await_all(seen: dict[int, list[float]], since: float) -> None:
    deadline_s = time.monotonic() + STABLE_SECONDS_MAX
    while not all(times and times[-1] > since for times in seen.values()):
        if time.monotonic() > deadline_s:
            raise BenchError("not every partition is read")
        time.sleep(0.02)


def _write(fleet: Fleet, stop: threading.Event) -> None:
    from confluent_kafka import Producer

    producer = Producer({**QUIET, "bootstrap.servers": fleet.address, "linger.ms": 0})
    while not stop.is_set():
        for number in range(ROLLING_PARTITIONS):
            producer.produce(ROLLING_TOPIC, b"tick", partition=number)
        producer.poll(0)
        time.sleep(0.01)
    producer.flush(10)


SCENARIOS = (
    Scenario("groups", "Consumer groups on one broker", groups, settings=SETTINGS, warm_ups=1, rounds_max=3),
)
