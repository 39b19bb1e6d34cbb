"""Helpers of directed runs: one script, one seed, conditions instead of checkers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from simulator.world import Node, Script, World

LIMIT_S = 300.0


def run(script: Script, seed: int = 1) -> World:
    world = World(seed, keep_trace=True)
    world.run(script, limit_s=LIMIT_S)
    return world


async def until(condition: Callable[[], Any], *, every_s: float = 0.01, within_s: float = 60.0) -> None:
    for _ in range(int(within_s / every_s)):
        if condition():
            return
        await asyncio.sleep(every_s)
    raise AssertionError(f"not within {within_s} s: {condition.__qualname__}")


def logged(world: World, text: str) -> list[str]:
    """The lines of the trace, which include the logs of all nodes, with this text."""
    return [line for line in world.trace.lines if text in line]


def sees_active(node: Node, broker_id: int) -> bool:
    """Whether the metadata of this node have the broker, unfenced."""
    broker = None if node.broker is None else node.broker.metadata.image.brokers.get(broker_id)
    return broker is not None and not broker.fenced
