"""Directed runs: a broker that could serve must come back, and one that is healthy must stay."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from simulator.world import World
from tests.support.simulation.directed import logged, run, sees_active, until


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


def test_the_end_of_the_idle_heartbeat_connection_fences_nobody() -> None:
    """The next heartbeat was due after the grace."""

    async def script(world: World) -> None:
        controller, broker = world.add_cluster(1, {}, controllers=1)
        await world.start_all([controller, broker])
        await until(lambda: sees_active(controller, 1))
        for _ in range(10):
            await until(lambda: world.network.break_idle(broker.name, 300_000_000))
            await asyncio.sleep(1.7)

    assert not logged(run(script), "broker fenced")


def test_a_controller_that_resets_every_connection_is_not_flooded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(world: World) -> None:
        controller, broker = world.add_cluster(1, {}, controllers=1)
        await world.start_all([controller, broker])
        await until(lambda: sees_active(controller, 1))
        assert controller.broker is not None
        controllers = controller.broker.controllers
        receive, heartbeats = controllers.heartbeat_received, 0

        def count(*heartbeat: Any) -> None:
            nonlocal heartbeats
            heartbeats += 1
            receive(*heartbeat)

        monkeypatch.setattr(controllers, "heartbeat_received", count)
        for _ in range(4000):
            world.network.break_idle(broker.name, 5_000_000)
            await asyncio.sleep(0.001)
        assert 15 <= heartbeats <= 30

    assert not logged(run(script), "broker fenced")
