"""Bugs planted in the shell of the group coordinator, and whether the simulated members notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.coordinators.hosted_shard import HostedShard
from ottla.broker.coordinators.replay import Replay
from ottla.broker.topic_creator import TopicCreator
from ottla.testing.simulation.scenarios import run_scenario

SEEDS_MAX = 30
Plant = Callable[[pytest.MonkeyPatch], None]


def answer_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    def release(self: HostedShard) -> None:
        while self._queue and self._queue[0].end_offset >= 0:
            for ticket, reply in self._queue.popleft().replies:
                self._answer(ticket, reply)

    patch.setattr(HostedShard, "_release", release)


def forget_the_end_of_the_log(patch: pytest.MonkeyPatch) -> None:
    step = Replay.step

    def stop_early(self: Replay) -> bool:
        self._log = _Shorter(self._log)  # type: ignore[assignment]
        return step(self)

    patch.setattr(Replay, "step", stop_early)


class _Shorter:
    """A log that hides its last ten records."""

    def __init__(self, log: Any) -> None:
        self._log = log._log if isinstance(log, _Shorter) else log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    @property
    def log_end_offset(self) -> int:
        return max(0, int(self._log.log_end_offset) - 10)

    def read(self, offset: int, max_bytes: int) -> Any:
        return self._log.read(offset, max_bytes, self.log_end_offset)


def keep_one_replica(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TopicCreator, "_brokers", lambda self: 1)


@pytest.mark.parametrize(
    ("plant", "scenario", "sign"),
    [
        (answer_before_the_commit, "groups-net", "found offset"),
        (forget_the_end_of_the_log, "groups-kill", "surprise"),
        (keep_one_replica, "groups-power", "found offset"),
    ],
)
def test_a_planted_bug_of_groups_is_caught(
    plant: Plant, scenario: str, sign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(1, SEEDS_MAX + 1):
        complaints = run_scenario(scenario, seed).complaints
        if any(sign in complaint for complaint in complaints):
            return
    pytest.fail(f"{SEEDS_MAX} seeds of {scenario} found nothing wrong with {plant.__name__}")
