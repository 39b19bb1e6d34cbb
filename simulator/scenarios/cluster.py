"""Stories of several nodes that replicate among them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence

from simulator.faults import Nemesis, quarrel
from simulator.scenarios.workload import FLUSHED, SHORT_SEGMENTS, TOPIC, Cast
from simulator.world import Story, World

REPLICAS = 3
PAUSE_S = (0.0, 0.2)  # between two writes of a client: a seed is to be over in a second or two


def drawn_properties(rng: random.Random) -> dict[str, str]:
    """How patient the nodes of this seed are with each other: Kafka's defaults, or less by far."""
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
    nemeses: Sequence[int] = (1, 1, 2),
    meddlers: int = 0,
    properties: Mapping[str, str] | None = None,
    min_isr: Sequence[int] = (1, 2),
    configs: Mapping[str, str] | None = None,
) -> Story:
    """A cluster, its clients, and one nemesis or several.

    With min.insync.replicas=1 too nothing may be lost as long as no disk forgets anything: who has a record
    alone is waited for.
    """

    async def story(world: World) -> None:
        drawn = {**drawn_properties(world.rng("properties")), **(properties or {})}
        nodes = world.add_cluster(brokers, drawn, controllers=controllers)
        await world.start_all(nodes)
        cast = Cast(
            world,
            producers=1,
            loose_producers=1,
            roving_consumers=1,
            meddlers=meddlers,
            replication_factor=min(brokers, REPLICAS),
            pause_s=PAUSE_S,
            configs={
                "min.insync.replicas": str(world.rng("min isr").choice(min_isr)),
                **(FLUSHED if flushed else {}),
                **SHORT_SEGMENTS,
                **(configs or {}),
            },
        )
        await cast.begin()
        await asyncio.sleep(0.2)
        count = world.rng("nemeses").choice(nemeses)
        await quarrel(world, count, duration_s, faults, topic=TOPIC, flushed=flushed)
        await Nemesis(world, "the last").make_good()
        await cast.finish()

    return story


def metadata_only(
    brokers: int, faults: Sequence[str], *, controllers: int = 0, duration_s: float = 12.0, nemeses: int = 1
) -> Story:
    """Nobody writes records: topics, configurations and replicas change under every fault there is."""

    async def story(world: World) -> None:
        nodes = world.add_cluster(brokers, drawn_properties(world.rng("properties")), controllers=controllers)
        await world.start_all(nodes)
        cast = Cast(world, producers=0, consumers=0, meddlers=3, replication_factor=min(brokers, REPLICAS))
        await cast.begin()
        await quarrel(world, nemeses, duration_s, faults, topic=TOPIC, flushed=True)
        await Nemesis(world, "the last").make_good()
        await cast.finish()

    return story
