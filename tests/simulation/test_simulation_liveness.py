"""Directed runs: a broker that could serve must come back, and one that is healthy must stay."""

from __future__ import annotations

import asyncio

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
