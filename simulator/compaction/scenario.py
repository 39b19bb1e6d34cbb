"""The scenario of compacted topics: logs are cleaned under faults."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence

from simulator.clients.admins import Admin, ConfigChanger
from simulator.compaction.checkers import DELETE_RETENTION_MS
from simulator.compaction.clients import KeyedConsumer, entries_in, new_producers
from simulator.faults import FaultInjector, run_injectors
from simulator.history.operations import PartitionName
from simulator.inspection import Watcher, replica_batches
from simulator.scenarios.cluster import REPLICAS, drawn_properties
from simulator.scenarios.final_state import FINISH_S, end_open_operations, in_sync, read_final_state
from simulator.scenarios.workload import FLUSHED
from simulator.world import Node, Script, World

TOPIC = "state"
PARTITIONS = 2
CLEANED_WITHIN_S = 10.0


def cleaner_properties(rng: random.Random) -> dict[str, str]:
    """Draw cleaner settings with steps so small that faults happen between them."""
    return {
        "log.cleaner.backoff.ms": str(rng.choice((200, 800))),
        "log.cleaner.io.buffer.size": str(rng.choice((200, 1_000, 8_000))),
        "log.cleaner.min.cleanable.ratio": rng.choice(("0.01", "0.3")),
    }


def topic_configs(rng: random.Random, flushed: bool) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "segment.ms": str(rng.choice((150, 400))),
        "delete.retention.ms": str(DELETE_RETENTION_MS),
        "file.delete.delay.ms": str(rng.choice((0, 300, 60_000))),
        "min.insync.replicas": "2",
        **(FLUSHED if flushed else {}),
    }


def cleaning(
    brokers: int,
    faults: Sequence[str],
    *,
    flushed: bool = False,
    duration_s: float = 10.0,
    changes: Mapping[str, Sequence[str]] | None = None,
) -> Script:
    """`changes`: values that configurations of the topic are changed to, meanwhile."""

    async def script(world: World) -> None:
        rng = world.rng("cleaning")
        properties = {**drawn_properties(world.rng("properties")), **cleaner_properties(rng)}
        if brokers == 1:
            nodes = [world.add_node(1, cleaner_properties(rng))]
        else:
            nodes = world.add_cluster(brokers, properties)
        await world.start_all(nodes)
        admin = Admin(world, "admin")
        configs = topic_configs(rng, flushed)
        if brokers == 1:
            configs["min.insync.replicas"] = "1"
        create = admin.create_topic(
            TOPIC, partitions=PARTITIONS, replication_factor=min(brokers, REPLICAS), configs=configs
        )
        await world.spawn(admin.process, create)
        producers = new_producers(world, TOPIC, PARTITIONS, 2)
        consumers = [KeyedConsumer(world, f"c{number}", TOPIC, PARTITIONS) for number in (1, 2)]
        watcher = Watcher(world)
        watching = world.spawn(world.process, watcher.run())
        writing = [world.spawn(each.process, each.run()) for each in producers]
        reading = [world.spawn(each.process, each.run()) for each in consumers]
        await asyncio.sleep(0.2)
        changer = ConfigChanger(world, "changer", TOPIC, changes)
        changing = world.spawn(changer.process, changer.run())
        await run_injectors(world, 1, duration_s, faults, topic=TOPIC, flushed=flushed)
        await FaultInjector(world, "the last").heal_all()
        changer.stopping = True
        await changing
        await _compact_again(world, changer, changes or {})
        for producer in producers:
            producer.stopping = True
        await asyncio.wait(writing, timeout=FINISH_S)
        for task in (*writing, *reading, watching):
            if task.done():
                task.result()
        await in_sync(world, TOPIC)
        reader = KeyedConsumer(world, "reader", TOPIC, PARTITIONS)
        await read_final_state(world, reader, admin, _replica_entries)
        await _all_have_cleaned(world)
        end_open_operations(world)
        watcher.stopping = True
        for consumer in consumers:
            consumer.stopping = True

    return script


async def _compact_again(world: World, changer: ConfigChanger, changes: Mapping[str, Sequence[str]]) -> None:
    """Compact at the end: that all nodes clean is checked."""
    if "cleanup.policy" in changes:
        changer.stopping = False
        await world.spawn(changer.process, changer.set("cleanup.policy", "compact"))


def _replica_entries(node: Node, name: PartitionName) -> list[tuple[int, str]] | None:
    batches = replica_batches(node, name)
    return None if batches is None else entries_in(batches)[0]


async def _all_have_cleaned(world: World) -> None:
    """Check that every node has cleaned: an idle cleaner would violate no other invariant."""
    until_s = world.loop.time() + CLEANED_WITHIN_S
    while idle := [node for node in world.nodes_up if not _has_cleaned(node)]:
        if world.loop.time() > until_s:
            world.history.surprise(idle[0].name, "has cleaned nothing")
            return
        await asyncio.sleep(0.2)


def _has_cleaned(node: Node) -> bool:
    assert node.broker is not None
    logs = [log for (topic, _), log in node.broker.logs.logs.items() if topic == TOPIC]
    return any(log.cleaned_offset for log in logs)
