"""Directed runs: a broker that could serve must come back, and one that is healthy must stay."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
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


def logged(world: World, text: str) -> bool:
    return any(text in line for line in reversed(world.trace.lines))


def sees_active(node: Node, broker_id: int) -> bool:
    """Whether the metadata of this node have the broker, unfenced."""
    broker = None if node.broker is None else node.broker.metadata.image.brokers.get(broker_id)
    return broker is not None and not broker.fenced


def test_a_broker_whose_new_registration_times_out_registers_later() -> None:
    """The task of the heartbeats died with the exception of the registration."""

    async def script(world: World) -> None:
        properties = {
            "broker.heartbeat.interval.ms": "100",
            "initial.broker.registration.timeout.ms": "1000",
        }
        controller, broker = world.add_cluster(1, properties, controllers=1)
        await world.start_all([controller, broker])
        assert controller.process is not None and controller.broker is not None
        unregister = controller.broker.controllers.decide(UnregisterBrokerRequest(broker_id=1))
        await world.spawn(controller.process, unregister)
        await until(lambda: logged(world, "heartbeat refused: BROKER_ID_NOT_REGISTERED"), every_s=0.0001)
        controller.kill()
        await asyncio.sleep(5)
        assert broker.up
        await controller.start()
        await until(lambda: sees_active(controller, 1))

    assert logged(run(script), "not registered, tries again")
