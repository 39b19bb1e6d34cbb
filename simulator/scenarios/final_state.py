"""The end of a story: all replicas are in sync again, somebody reads everything, nodes are looked into."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from simulator.clients.admins import Admin, facts
from simulator.clients.consumers import Consumer
from simulator.history import OPEN, PartitionName
from simulator.inspection import (
    all_in_sync,
    all_know_the_same,
    committed_batches,
    unclean_elections,
)
from simulator.world import Node, World

FINISH_S = 60.0  # after healing everything asked for must be done within this

Result = TypeVar("Result")
Held = Callable[[Node, PartitionName], list[tuple[int, str]] | None]


async def in_time(task: asyncio.Task[Result]) -> Result | None:
    done, _ = await asyncio.wait([task], timeout=FINISH_S)
    return task.result() if done else None


async def in_sync(world: World, topic: str) -> None:
    """Every replica comes back into the ISR, and every node knows of it."""
    operation = world.history.invoke("admin", "in-sync", topic)
    until_s = world.loop.time() + FINISH_S
    while world.loop.time() < until_s:
        if all_in_sync(world) and all_know_the_same(world):
            operation.ok()
            return
        await asyncio.sleep(0.1)
    operation.fail("not within its time")


async def look_at_everything(world: World, reader: Consumer, admin: Admin, held: Held) -> None:
    """What a reader and an administrator are told, and what nodes hold, whether clients can see it or not."""
    history = world.history
    for index in range(reader.partitions):
        name = PartitionName(reader.topic, index)
        operation = history.invoke(reader.name, "final-read", name)
        found = await in_time(world.spawn(reader.process, reader.read_all(index)))
        if found is not None:
            history.final[name] = found
            operation.ok(len(found))
        else:
            operation.info("not within its time")
        # At once: what may be gone by now is judged by the time of the reading.
        by_node = {node.id: held(node, name) for node in world.nodes_up}
        history.replicas[name] = {node_id: kept for node_id, kept in by_node.items() if kept is not None}
    history.final_facts = await in_time(world.spawn(admin.process, facts(admin, reader.topic))) or {}
    for node in world.nodes_up:
        history.final_metadata[node.id] = committed_batches(node)
        history.unclean_elections += unclean_elections(node)


def end_open_operations(world: World) -> None:
    for operation in world.history.operations:
        if operation.outcome == OPEN:
            operation.info("never ended")
