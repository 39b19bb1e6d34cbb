"""Bugs that tests plant in the shipped classes, and what the seeds of a story must tell of them."""

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

Plant = Callable[[pytest.MonkeyPatch], None]


def show_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    read = PartitionLog.read

    def generous(
        self: PartitionLog, offset: int, max_bytes: int, upper: int | None = None, **options: bool
    ) -> Any:
        return read(self, offset, max_bytes, None, **options)

    patch.setattr(PartitionLog, "read", generous)


def assert_caught(
    plant: Plant,
    scenario: str,
    seeds: range,
    signs: Sequence[str],
    *,
    length: float = 1.0,
    by_nothing_else: bool = False,
) -> None:
    """One of the signs is in what a seed tells; nothing else before it, where that is asked for."""
    for seed in seeds:
        complaints = run_scenario(scenario, seed, length=length).complaints
        if any(sign in complaint for complaint in complaints for sign in signs):
            return
        if by_nothing_else:
            assert not complaints, f"caught, but by something else: {complaints}"
    pytest.fail(f"{len(seeds)} seeds of {scenario} found nothing wrong with {plant.__name__}")


def assert_all_told(plant: Plant, script: Script, seeds: range, signs: Sequence[str]) -> None:
    """Each of the signs begins a complaint of some seed of a story of transactions."""
    missing = list(signs)
    for seed in seeds:
        complaints = _complaints_of_transactions(script, seed)
        missing = [sign for sign in missing if not any(text.startswith(sign) for text in complaints)]
        if not missing:
            return
    pytest.fail(f"{len(seeds)} seeds with {plant.__name__} told of no {', '.join(missing)}")


def _complaints_of_transactions(script: Script, seed: int) -> list[str]:
    world = World(seed)
    try:
        world.run(script, limit_s=300.0)
    except (SimulationStuck, SimulationTooLong) as error:
        return [f"{type(error).__name__}: {error}"]
    return check(world.history, TRANSACTIONS)
