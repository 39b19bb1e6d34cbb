"""Stories of consumer groups: members come and go, coordinators move, brokers fail."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from simulator.clients.admins import Meddler
from simulator.faults import Nemesis, quarrel
from simulator.groups.group import KINDS, Company, company_timing
from simulator.groups.history import GROUP_TOPIC
from simulator.inspection import leaders
from simulator.scenarios.cluster import drawn_properties
from simulator.scenarios.workload import FLUSHED, SHORT_SEGMENTS, TOPIC, Cast
from simulator.world import Story, World

PARTITIONS = 5
SEATS = 3
SHARDS = 2  # partitions of the topic of offsets
REPLICAS = 3
PAUSE_S = (0.0, 0.3)


class Mover(Meddler):
    """Moves coordinators: other leaders and, if `to_other_replicas`, other replicas."""

    to_other_replicas = True

    async def run(self) -> None:
        while not self.stopping:
            await asyncio.sleep(self.rng.uniform(0.3, 2.5))
            reassigns = self.to_other_replicas and self.rng.random() < 0.5
            await (self.reassign() if reassigns else self.elect())


def groups(
    faults: Sequence[str],
    *,
    flushed: bool = False,
    duration_s: float = 14.0,
    nemeses: Sequence[int] = (1, 1, 2),
    min_isr: Sequence[int] = (1, 2),
    reassigns: bool = True,
) -> Story:
    """Two groups read one topic, each in a way that the seed draws."""

    async def story(world: World) -> None:
        rng = world.rng("groups")
        await world.start_all(world.add_cluster(3, _properties(world, min_isr[0], flushed=flushed)))
        cast = Cast(
            world,
            partitions=PARTITIONS,
            producers=1,
            consumers=0,
            replication_factor=REPLICAS,
            pause_s=PAUSE_S,
            configs={**SHORT_SEGMENTS, "min.insync.replicas": str(rng.choice(min_isr))},
        )
        own = range(SHARDS)
        mover = Mover(world, "mover", GROUP_TOPIC, own, "", replication_factor=REPLICAS)
        mover.to_other_replicas = reassigns
        cast.others.append(mover)
        await cast.begin()
        playing = [
            Company(
                world,
                group_id,
                rng.choice(list(KINDS)),
                topic=TOPIC,
                partitions=PARTITIONS,
                shards=SHARDS,
                seats=SEATS,
            )
            for group_id in ("g", "h")
        ]
        for company in playing:
            company.begin()
        await asyncio.sleep(rng.uniform(0.2, 2.0))
        await quarrel(world, rng.choice(nemeses), duration_s, faults, topic=GROUP_TOPIC, flushed=flushed)
        nemesis = Nemesis(world, "the last", flushed=flushed)
        await nemesis.make_good()
        await cast.finish()
        await asyncio.gather(*(company.finish() for company in playing))
        await _lose_a_coordinator(world, playing, nemesis)

    return story


def _properties(world: World, offsets_min_isr: int, *, flushed: bool) -> dict[str, str]:
    timing = company_timing(world)
    given = {
        **drawn_properties(world.rng("properties")),
        "offsets.topic.num.partitions": str(SHARDS),
        "min.insync.replicas": str(offsets_min_isr),
        "group.min.session.timeout.ms": "100",
        "group.initial.rebalance.delay.ms": str(world.rng("delay").choice((0, 300))),
        "group.consumer.session.timeout.ms": str(timing.session_ms),
        "group.consumer.min.session.timeout.ms": "100",
        "group.consumer.heartbeat.interval.ms": str(timing.heartbeat_ms),
        "group.consumer.min.heartbeat.interval.ms": "50",
        "group.consumer.assignment.interval.ms": str(world.rng("assignments").choice((0, 1_000))),
    }
    if flushed:
        given["log.flush.interval.messages"] = FLUSHED["flush.messages"]
    return given


async def _lose_a_coordinator(world: World, companies: Sequence[Company], nemesis: Nemesis) -> None:
    """What was acknowledged is known without any single broker."""
    node = world.rng("last coordinator").choice(leaders(world, GROUP_TOPIC))
    node.kill()
    await asyncio.sleep(0.2)
    await asyncio.gather(*(company.read_offsets("heir") for company in companies))
    await nemesis.revive(node, cut_short=False, must=True)
