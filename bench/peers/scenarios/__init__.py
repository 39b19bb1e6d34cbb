"""The scenarios, in the order of the report."""

from __future__ import annotations

from bench.peers.contest import Scenario
from bench.peers.scenarios import (
    clients,
    consume,
    failover,
    groups,
    latency,
    partitions,
    produce,
    small,
    spark,
    start,
    transactions,
)

SCENARIOS: tuple[Scenario, ...] = (
    *start.SCENARIOS,
    *produce.SCENARIOS,
    *consume.SCENARIOS,
    *clients.SCENARIOS,
    *latency.SCENARIOS,
    *small.SCENARIOS,
    *failover.SCENARIOS,
    *partitions.SCENARIOS,
    *groups.SCENARIOS,
    *transactions.SCENARIOS,
    *spark.SCENARIOS,
)
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
