"""Scenarios of clusters."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence

from simulator.faults import FaultInjector, run_injectors
from simulator.scenarios.workload import FLUSHED, SHORT_SEGMENTS, TOPIC, Workload
from simulator.world import Script, World

REPLICAS = 3
PAUSE_S = (0.0, 0.2)  # between two writes of a client; keeps a seed at a second or two


def drawn_properties(rng: random.Random) -> dict[str, str]:
    """Draw the timeouts between nodes: Kafka's defaults, or much shorter ones."""
    lag_ms = rng.choice((600, 600, 2_000, 30_000))
    session_ms = rng.choice((1_200, 1_200, 3_000, 9_000))
    return {
        "replica.lag.time.max.ms": str(lag_ms),
        "broker.session.timeout.ms": str(session_ms),
        "broker.heartbeat.interval.ms": str(session_ms // rng.choice((4, 6))),
        "leader.imbalance.check.interval.seconds": str(rng.choice((1, 5, 300))),
        "leader.imbalance.per.broker.percentage": "1",
        "replica.fetch.wait.max.ms": str(rng.choice((50, 500))),
        "metadata.log.max.record.bytes.between.snapshots": str(rng.choice((2_000, 20_000, 20_971_520))),
    }


def cluster(
    brokers: int,
    faults: Sequence[str],
    *,
    controllers: int = 0,
    duration_s: float = 12.0,
    flushed: bool = False,
    injectors: Sequence[int] = (1, 1, 2),
    changers: int = 0,
    properties: Mapping[str, str] | None = None,
    min_isr: Sequence[int] = (1, 2),
    configs: Mapping[str, str] | None = None,
) -> Script:
    """A cluster, clients, and one or more fault injectors.

    Nothing may be lost with min.insync.replicas=1 either, as long as no disk loses data: the partition waits
    for the only replica that has a record.
    """

    async def script(world: World) -> None:
        drawn = {**drawn_properties(world.rng("properties")), **(properties or {})}
        nodes = world.add_cluster(brokers, drawn, controllers=controllers)
        await world.start_all(nodes)
        workload = Workload(
            world,
            producers=1,
            unreliable_producers=1,
            any_replica_consumers=1,
            changers=changers,
            replication_factor=min(brokers, REPLICAS),
            pause_s=PAUSE_S,
            configs={
                "min.insync.replicas": str(world.rng("min isr").choice(min_isr)),
                **(FLUSHED if flushed else {}),
                **SHORT_SEGMENTS,
                **(configs or {}),
            },
        )
        await workload.begin()
        await asyncio.sleep(0.2)
        count = world.rng("nemeses").choice(injectors)
        await run_injectors(world, count, duration_s, faults, topic=TOPIC, flushed=flushed)
        await FaultInjector(world, "the last").heal_all()
        await workload.finish()

    return script


def metadata_only(
    brokers: int, faults: Sequence[str], *, controllers: int = 0, duration_s: float = 12.0, injectors: int = 1
) -> Script:
    """Change topics, configurations and replicas under all faults; no records are written."""

    async def script(world: World) -> None:
        nodes = world.add_cluster(brokers, drawn_properties(world.rng("properties")), controllers=controllers)
        await world.start_all(nodes)
        workload = Workload(
            world, producers=0, consumers=0, changers=3, replication_factor=min(brokers, REPLICAS)
        )
        await workload.begin()
        await run_injectors(world, injectors, duration_s, faults, topic=TOPIC, flushed=True)
        await FaultInjector(world, "the last").heal_all()
        await workload.finish()

    return script
