"""Mutants: defects that tests inject into the broker, and assertions that the simulator finds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ottla.storage.log import PartitionLog
from simulator.checkers import check
from simulator.runner import run_scenario
from simulator.runtime.loop import SimulationStuck, SimulationTooLong
from simulator.transactions.checkers import TRANSACTIONS
from simulator.world import Script, World

Mutation = Callable[[pytest.MonkeyPatch], None]


def show_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    read = PartitionLog.read

    def generous(
        self: PartitionLog, offset: int, max_bytes: int, upper: int | None = None, **options: bool
    ) -> Any:
        return read(self, offset, max_bytes, None, **options)

    patch.setattr(PartitionLog, "read", generous)


def assert_caught(
    mutate: Mutation,
    scenario: str,
    seeds: range,
    expected: Sequence[str],
    *,
    length: float = 1.0,
    by_nothing_else: bool = False,
) -> None:
    """Assert that a seed reports one of `expected`; with `by_nothing_else`, the first report has it."""
    for seed in seeds:
        complaints = run_scenario(scenario, seed, length=length).complaints
        if any(sign in complaint for complaint in complaints for sign in expected):
            return
        if by_nothing_else:
            assert not complaints, f"caught, but by something else: {complaints}"
    pytest.fail(f"{len(seeds)} seeds of {scenario} did not catch {mutate.__name__}")


def assert_all_reported(mutate: Mutation, script: Script, seeds: range, expected: Sequence[str]) -> None:
    """Assert that each of `expected` is reported by some seed of a transaction script."""
    missing = list(expected)
    for seed in seeds:
        complaints = _complaints_of_transactions(script, seed)
        missing = [sign for sign in missing if not any(text.startswith(sign) for text in complaints)]
        if not missing:
            return
    pytest.fail(f"{len(seeds)} seeds with {mutate.__name__} did not report {', '.join(missing)}")


def _complaints_of_transactions(script: Script, seed: int) -> list[str]:
    world = World(seed)
    try:
        world.run(script, limit_s=300.0)
    except (SimulationStuck, SimulationTooLong) as error:
        return [f"{type(error).__name__}: {error}"]
    return check(world.history, TRANSACTIONS)
