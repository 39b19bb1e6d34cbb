"""The scenario of consumer groups: members come and go, coordinators move, brokers fail."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from simulator.clients.admins import TopicChanger
from simulator.faults import FaultInjector, run_injectors
from simulator.groups.group import KINDS, ConsumerGroup, group_timing
from simulator.history.groups import GROUP_TOPIC
from simulator.inspection import leaders
from simulator.scenarios.cluster import drawn_properties
from simulator.scenarios.workload import FLUSHED, SHORT_SEGMENTS, TOPIC, Workload
from simulator.world import Script, World

PARTITIONS = 5
MEMBERS = 3
SHARDS = 2  # partitions of the offsets topic
REPLICAS = 3
PAUSE_S = (0.0, 0.3)


class CoordinatorMover(TopicChanger):
    """Moves coordinators by leader elections and, with `to_other_replicas`, by reassignments."""

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
    injectors: Sequence[int] = (1, 1, 2),
    min_isr: Sequence[int] = (1, 2),
    reassigns: bool = True,
) -> Script:
    """Two groups read one topic, with protocols drawn from the seed."""

    async def script(world: World) -> None:
        rng = world.rng("groups")
        await world.start_all(world.add_cluster(3, _properties(world, min_isr[0], flushed=flushed)))
        workload = Workload(
            world,
            partitions=PARTITIONS,
            producers=1,
            consumers=0,
            replication_factor=REPLICAS,
            pause_s=PAUSE_S,
            configs={**SHORT_SEGMENTS, "min.insync.replicas": str(rng.choice(min_isr))},
        )
        own = range(SHARDS)
        mover = CoordinatorMover(world, "mover", GROUP_TOPIC, own, "", replication_factor=REPLICAS)
        mover.to_other_replicas = reassigns
        workload.others.append(mover)
        await workload.begin()
        running = [
            ConsumerGroup(
                world,
                group_id,
                rng.choice(list(KINDS)),
                topic=TOPIC,
                partitions=PARTITIONS,
                shards=SHARDS,
                slots=MEMBERS,
            )
            for group_id in ("g", "h")
        ]
        for consumer_group in running:
            consumer_group.begin()
        await asyncio.sleep(rng.uniform(0.2, 2.0))
        await run_injectors(
            world, rng.choice(injectors), duration_s, faults, topic=GROUP_TOPIC, flushed=flushed
        )
        injector = FaultInjector(world, "the last", flushed=flushed)
        await injector.heal_all()
        await workload.finish()
        await asyncio.gather(*(consumer_group.finish() for consumer_group in running))
        await _lose_a_coordinator(world, running, injector)

    return script


def _properties(world: World, offsets_min_isr: int, *, flushed: bool) -> dict[str, str]:
    timing = group_timing(world)
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


async def _lose_a_coordinator(
    world: World, consumer_groups: Sequence[ConsumerGroup], injector: FaultInjector
) -> None:
    """Kill a coordinator: acknowledged commits must survive the loss of any single broker."""
    node = world.rng("last coordinator").choice(leaders(world, GROUP_TOPIC))
    node.kill()
    await asyncio.sleep(0.2)
    await asyncio.gather(*(consumer_group.read_offsets("heir") for consumer_group in consumer_groups))
    await injector.bring_up(node, may_interrupt=False, required=True)
