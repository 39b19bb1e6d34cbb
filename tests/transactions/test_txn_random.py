"""Random clients, fail-overs, lost answers and late messages: what must hold in all of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.transactions.clients import Crowd


@pytest.mark.parametrize("version", [1, 2])
@given(seed=st.integers(0, 2**32))
def test_transactions_are_atomic(version: int, seed: int) -> None:
    Crowd(seed, version).play(6_000)


@pytest.mark.parametrize("version", [1, 2])
def test_a_seed_reproduces_the_run(version: int) -> None:
    stories = []
    for _ in range(2):
        crowd = Crowd(5, version)
        crowd.play(6_000)
        stories.append((crowd.world.log, [len(leader.log) for leader in crowd.world.leaders.values()]))
    assert stories[0] == stories[1]
    assert len(stories[0][0]) > 10


@pytest.mark.parametrize("version", [1, 2])
def test_something_happens_in_these_worlds(version: int) -> None:
    committed = aborted = fenced = 0
    for seed in range(20):
        crowd = Crowd(seed, version)
        crowd.play(6_000)
        for seen in crowd.world.results().values():
            committed += True in seen.values()
            aborted += False in seen.values()
        fenced += sum(not each.is_alive for each in crowd.clients)
    assert min(committed, aborted, fenced) > 30, (committed, aborted, fenced)
