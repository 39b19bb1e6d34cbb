"""The wall clock of one node is set: no interval of the cluster may become shorter or longer by it."""

from __future__ import annotations

import asyncio

import pytest

from ottla.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from ottla.protocol.messages.describe_quorum_response import DescribeQuorumResponse
from simulator.clients.base import Client
from simulator.inspection import active_controllers
from simulator.stress.watch import HealthWatcher
from simulator.world import Node, World
from tests.support.simulation.directed import run, until

HOUR_MS = 3_600_000
STEPS_MS = [-HOUR_MS, 10_000, HOUR_MS]  # 10 s: more than broker.session.timeout.ms
AFTERWARDS_S = 12.0  # more than all session time-outs


async def start_three(world: World, properties: dict[str, str] | None = None) -> tuple[Node, list[Node]]:
    """Start a cluster; return the node with the active controller, and the others."""
    nodes = world.add_cluster(3, properties)
    await world.start_all(nodes)
    await until(lambda: len(active_controllers(world)) == 1)
    (controller,) = active_controllers(world)
    return controller, [node for node in nodes if node is not controller]


@pytest.mark.parametrize("step_ms", STEPS_MS)
@pytest.mark.parametrize("on_controller", [True, False])
def test_a_clock_that_is_set_fences_no_broker_and_moves_no_controller(
    on_controller: bool, step_ms: int
) -> None:
    async def script(world: World) -> None:
        controller, others = await start_three(world)
        await asyncio.sleep(3)
        watcher = HealthWatcher(world, topics=())
        watching = world.spawn(world.process, watcher.run())
        await asyncio.sleep(1)
        health = world.history.health
        elections = len(health.elections)
        (controller if on_controller else others[0]).clock_skew_ms += step_ms
        await asyncio.sleep(AFTERWARDS_S)
        watcher.stopping = True
        await watching
        assert health.fencings == []
        assert health.elections[elections:] == []
        assert health.gaps == []
        assert active_controllers(world) == [controller]

    run(script)


@pytest.mark.parametrize("step_ms", [-HOUR_MS, HOUR_MS])
def test_a_new_controller_is_elected_soon_after_the_clocks_were_set(step_ms: int) -> None:
    async def script(world: World) -> None:
        controller, others = await start_three(world)
        await asyncio.sleep(3)
        for node in others:
            node.clock_skew_ms += step_ms
        await asyncio.sleep(1)
        controller.kill()
        await until(lambda: any(node in others for node in active_controllers(world)), within_s=10)

    run(script)


def test_the_quorum_is_described_with_the_times_of_the_wall_clock() -> None:
    async def script(world: World) -> None:
        controller, _ = await start_three(world)
        await asyncio.sleep(3)
        controller.clock_skew_ms -= HOUR_MS
        await asyncio.sleep(3)
        client = Client(world, "c", "t")
        topic = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
        request = DescribeQuorumRequest(topics=[topic])
        answer = await world.spawn(
            client.process, client.request_from(controller.host_port, request, DescribeQuorumResponse)
        )
        voters = answer.topics[0].partitions[0].current_voters
        assert len(voters) == 3
        for voter in voters:
            assert abs(voter.last_fetch_timestamp - controller.clock_ms()) < 2_000
            assert abs(voter.last_caught_up_timestamp - controller.clock_ms()) < 2_000

    run(script)
