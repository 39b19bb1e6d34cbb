"""SIGKILL of a leader and of the controller: the longest time that a partition takes no record."""

from __future__ import annotations

import os

from bench.broker import BenchError
from bench.cases.cluster_failover import PARTITIONS, TOPIC, Load, gap_s, steady
from bench.peers.contest import Effort, Figures, Measure, Scenario
from bench.peers.fleet import Fleet
from ottla.client import NewTopic

GAP = Measure("s", goal=1)


def failover(fleet: Fleet, effort: Effort) -> Figures:
    if not os.path.isdir(os.path.join(fleet.brokers[0].data_dir, f"{TOPIC}-0")):
        fleet.create_topic(NewTopic(TOPIC, PARTITIONS, 3))
    leader_s = controller_s = changes_s = 0.0
    with Load(fleet) as load:
        for number in range(effort.kills):
            controller = steady(fleet, load)
            others = [node_id for node_id in range(len(fleet.brokers)) if node_id != controller]
            leader_s = max(leader_s, gap_s(fleet, load, others[number % len(others)]))
            changes: list[float] = []
            controller_s = max(controller_s, gap_s(fleet, load, steady(fleet, load), changes))
            changes_s = max(changes_s, *changes)
        steady(fleet, load)
    if load.failures:
        raise BenchError(f"librdkafka: {len(load.failures)} records failed: {load.failures[0]}")
    return {
        f"leader killed, longest gap of {effort.kills}": (leader_s, GAP),
        f"controller and leader killed, longest gap of {effort.kills}": (controller_s, GAP),
        f"controller killed, until a topic is created, longest of {effort.kills}": (changes_s, GAP),
    }


SCENARIOS = (
    Scenario(
        "failover",
        "Gap seen by an idempotent librdkafka producer, 3 brokers, RF 3, min ISR 2, 6 partitions",
        failover,
        brokers=3,
        warm_ups=0,
        rounds_max=3,
    ),
)
