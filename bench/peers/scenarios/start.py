"""From the start of a process to the first record, and the cost of an idle server."""

from __future__ import annotations

import time

from bench.batches import QUIET
from bench.broker import BenchError
from bench.peers.contest import Effort, Figures, Measure, Scenario, Stopwatch
from bench.peers.fleet import Peer
from bench.peers.usage import resident_bytes
from ottla.client import NewTopic

TOPIC = "first"
DELIVERY_MS_MAX = 60_000
SETTLE_SECONDS = 1.0


def one(peer: Peer, effort: Effort) -> Figures:
    return _start(peer, effort, 1)


def three(peer: Peer, effort: Effort) -> Figures:
    return _start(peer, effort, 3)


def _start(peer: Peer, effort: Effort, brokers: int) -> Figures:
    with peer.fleet(brokers) as fleet:
        fleet.create_topic(NewTopic(TOPIC, 1, brokers))
        fleet.stop()
        began_s = time.perf_counter()
        for node in fleet.brokers:
            node.begin_start()
        _first_record(fleet.address)
        took_s = time.perf_counter() - began_s
        for node in fleet.brokers:
            node.await_ready()
        fleet.await_in_sync(TOPIC)
        time.sleep(SETTLE_SECONDS)
        watch = Stopwatch(fleet)
        time.sleep(effort.idle_seconds)
        idle_s, used = watch.stop()
        resident = resident_bytes(fleet.pids)
    return {
        "start to first record": (took_s, Measure("s", goal=1)),
        "idle memory": (resident / 1e6, Measure("MB RSS", goal=1)),
        "idle CPU": (used.cpu_s / idle_s * 1000, Measure("ms per s", goal=1)),
        "idle switches": (used.switches / idle_s, Measure("context switches per s", aside=True)),
    }


def _first_record(address: str) -> None:
    """Write with a producer that is started before the server and connects every 10 ms."""
    from confluent_kafka import Producer

    failures: list[object] = []
    waiting = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 10, "linger.ms": 0}
    producer = Producer(
        {**QUIET, **waiting, "bootstrap.servers": address, "message.timeout.ms": DELIVERY_MS_MAX}
    )
    producer.produce(TOPIC, b"first", on_delivery=lambda error, _: failures.append(error) if error else None)
    if producer.flush(DELIVERY_MS_MAX / 1000) or failures:
        raise BenchError(f"the first record was not written: {failures}")


SCENARIOS = (
    Scenario("start", "Start to first record, then at rest: 1 broker", alone=one),
    Scenario("start-three", "Start to first record, then at rest: 3 brokers", alone=three, rounds_max=3),
)
