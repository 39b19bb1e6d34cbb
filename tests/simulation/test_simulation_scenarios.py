"""A few seeds of every scenario, and determinism. `make simulate` runs many seeds."""

from __future__ import annotations

import functools

import pytest

from simulator.runner import SCENARIOS, run_scenario
from simulator.world import World
from tests.support.simulation.subprocesses import output_in_another_process

FIRST = 1000
SEEDS = {"power": 4, "unflushed": 8, "bit-rot": 5, "txn-late": 2}  # default 1; `make simulate` runs more
FINGERPRINT = """
import sys
from simulator.runner import run_scenario
print(run_scenario(sys.argv[1], int(sys.argv[2])).fingerprint)
"""

# Outcomes are shared by several tests.
outcome_of = functools.cache(run_scenario)


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_some_seeds_of(name: str) -> None:
    for seed in range(FIRST, FIRST + SEEDS.get(name, 1)):
        outcome = outcome_of(name, seed)
        assert outcome.passed, f"{name} seed {seed}: {outcome.complaints}"
        records_min = 20 if name.startswith(("quorum", "groups", "txn-late")) else 100
        assert outcome.acknowledged > records_min, "the scenario did too little to prove anything"


@pytest.mark.parametrize(
    "name", ["disk-full", "unflushed", "bit-rot", "quorum", "cluster-admin", "groups-net", "txn-late"]
)
def test_a_seed_is_deterministic(name: str) -> None:
    if run_scenario(name, FIRST).fingerprint == outcome_of(name, FIRST).fingerprint:
        return
    first, second = (run_scenario(name, FIRST, keep_trace=True) for _ in range(2))
    for ours, theirs in zip(first.trace, second.trace, strict=False):
        assert ours == theirs
    pytest.fail("it did not, though it does now that its trace is kept")


@pytest.mark.parametrize(
    "name", ["power", "network", "cluster-kill", "cluster-roles", "groups-kill", "groups"]
)
def test_a_seed_is_deterministic_across_interpreters(name: str) -> None:
    """String hashes and object addresses differ there and must not matter."""
    assert output_in_another_process(FINGERPRINT, name, FIRST) == outcome_of(name, FIRST).fingerprint


def test_seeds_differ() -> None:
    assert outcome_of("power", FIRST).fingerprint != outcome_of("power", FIRST + 1).fingerprint


def test_a_new_directory_outlives_a_power_cut() -> None:
    world = World(1)
    node = world.add_node(1, {"log.dirs": "/deep/down/here"})

    async def script(world: World) -> tuple[str, str]:
        await node.start()
        assert node.broker is not None
        before = node.broker.identity.cluster_id
        node.power_cut()
        await node.start()
        return before, node.broker.identity.cluster_id

    before, after = world.run(script)
    assert before == after


def test_several_nodes_are_independent() -> None:
    world = World(1)
    nodes = [world.add_node(1), world.add_node(2)]

    async def script(world: World) -> None:
        for node in nodes:
            await node.start()
        nodes[0].power_cut()
        assert [node.up for node in nodes] == [False, True]
        nodes[1].pause()
        await nodes[0].start()
        assert world.nodes_up == nodes
        world.heal()
        for node in nodes:
            await node.stop()
        assert world.nodes_up == []

    world.run(script)
    assert world.loop.errors == []


def test_a_cluster_has_the_properties_of_one() -> None:
    world = World(1)
    first, _, third = world.add_cluster(3, {"broker.rack": "r"})
    assert first.properties["controller.quorum.voters"] == "1@node1:9093,2@node2:9093,3@node3:9093"
    assert first.properties["broker.rack"] == "r"
    assert third.properties["listeners"] == "PLAINTEXT://node3:9092,CONTROLLER://node3:9093"
    assert third.properties["node.id"] == "3"
    assert first.properties["cluster.id"] == third.properties["cluster.id"] == World(1).cluster_id
    assert World(1).cluster_id != World(2).cluster_id
    assert len(World(1).cluster_id) == 22


def test_a_cluster_with_separate_roles() -> None:
    world = World(1)
    nodes = world.add_cluster(2, controllers=3)
    assert [node.id for node in nodes] == [101, 102, 103, 1, 2]
    assert [node.id for node in world.brokers] == [1, 2]
    assert [node.is_controller for node in nodes] == [True, True, True, False, False]
    voters = "101@node101:9093,102@node102:9093,103@node103:9093"
    assert {node.properties["controller.quorum.voters"] for node in nodes} == {voters}
    assert nodes[0].properties["listeners"] == "CONTROLLER://node101:9093"
    assert nodes[3].properties["listeners"] == "PLAINTEXT://node1:9092"
