"""Random joins, leaves, crashes, restarts, commits and fail-overs: what must hold in all of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.groups.classic_world import World


@given(seed=st.integers(0, 2**32))
def test_one_owner_at_a_time_and_every_request_is_answered(seed: int) -> None:
    world = World(seed)
    world.append_fails = world.random.choice([0.0, 0.0, 0.1])
    for _ in range(world.random.randrange(20, 120)):
        world.step()
    world.check_log()
    world.settle()
    world.check_log()
    for partition, generation in world.committed.items():
        offsets = world.shard.context.offsets["g"]
        found = offsets.get("t", partition)
        assert found is not None
        assert found[0] >= generation
    # The consumers fall silent: nothing may wait for ever.
    for consumer in world.consumers:
        consumer.is_alive = False
    world.pass_time(600_000)
    assert not world.waiting


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_seed_reproduces_the_run(seed: int) -> None:
    stories = []
    for _ in range(2):
        world = World(seed)
        for _ in range(60):
            world.step()
        stories.append((world.log, world.now_ms, [each.owned for each in world.consumers]))
    assert stories[0] == stories[1]
