"""The end of a scenario: wait for full ISRs, read all records, inspect all nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from simulator.clients.admins import Admin, facts
from simulator.clients.consumers import Consumer
from simulator.history.operations import OPEN, PartitionName
from simulator.inspection import (
    all_have_same_metadata,
    all_in_sync,
    committed_batches,
    unclean_elections,
)
from simulator.world import Node, World

FINISH_S = 60.0  # after healing, every operation must complete within this time

Result = TypeVar("Result")
Held = Callable[[Node, PartitionName], list[tuple[int, str]] | None]


async def in_time(task: asyncio.Task[Result]) -> Result | None:
    done, _ = await asyncio.wait([task], timeout=FINISH_S)
    return task.result() if done else None


async def in_sync(world: World, topic: str) -> None:
    """Wait until every replica is in the ISR and every node knows it."""
    operation = world.history.invoke("admin", "in-sync", topic)
    until_s = world.loop.time() + FINISH_S
    while world.loop.time() < until_s:
        if all_in_sync(world) and all_have_same_metadata(world):
            operation.ok()
            return
        await asyncio.sleep(0.1)
    operation.fail("timed out")


async def read_final_state(world: World, reader: Consumer, admin: Admin, held: Held) -> None:
    """Record what a consumer and an administrator read, and what each replica holds."""
    history = world.history
    for index in range(reader.partitions):
        name = PartitionName(reader.topic, index)
        operation = history.invoke(reader.name, "final-read", name)
        found = await in_time(world.spawn(reader.process, reader.read_all(index)))
        if found is not None:
            history.final[name] = found
            operation.ok(len(found))
        else:
            operation.info("timed out")
        # Without a pause: the checkers judge by the time of the read what may be deleted by then.
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
