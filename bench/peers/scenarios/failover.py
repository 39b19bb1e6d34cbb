"""SIGKILL of a leader and of the controller: the longest time in which a partition accepts no record."""

from __future__ import annotations

import os

from bench.broker import BenchError
from bench.cases.cluster_failover import PARTITIONS, TOPIC, Load, gap_s, steady
from bench.peers.contest import Effort, Figures, Measure, Scenario
from bench.peers.fleet import Fleet
from ottla.client import NewTopic

GAP = Measure("s", goal=1)


def failover(fleet: Fleet, _: Effort) -> Figures:
    if not os.path.isdir(os.path.join(fleet.brokers[0].data_dir, f"{TOPIC}-0")):
        fleet.create_topic(NewTopic(TOPIC, PARTITIONS, 3))
        fleet.await_in_sync(TOPIC)
    changes_s: list[float] = []
    with Load(fleet) as load:
        controller = steady(fleet, load)
        other = (controller + 1) % len(fleet.brokers)
        leader_gap_s = gap_s(fleet, load, other)
        controller_gap_s = gap_s(fleet, load, steady(fleet, load), changes_s)
        steady(fleet, load)
    if load.failures:
        raise BenchError(f"librdkafka: {len(load.failures)} records failed: {load.failures[0]}")
    return {
        "leader killed: gap": (leader_gap_s, GAP),
        "controller and leader killed: gap": (controller_gap_s, GAP),
        "controller killed: until a topic is created": (changes_s[0], GAP),
    }


SCENARIOS = (
    Scenario(
        "failover",
        "Gap seen by an idempotent librdkafka producer, 3 brokers, RF 3, min ISR 2, 6 partitions",
        failover,
        brokers=3,
        warm_ups=0,
    ),
)
