"""A few seeds catch each mutant of the group coordinator and of its hosting on partition leaders."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.coordinators.replay import Replay
from ottla.broker.hosting.host import MachineHost
from ottla.broker.metadata.topic_creator import TopicCreator
from ottla.groups.classic.group import ClassicGroup
from ottla.groups.classic.join import Join
from ottla.groups.classic.rebalance import Rebalancing
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.offsets.commit import Commit
from ottla.groups.offsets.load import OffsetLoader
from ottla.groups.shard import GroupShard
from ottla.protocol.errors import ErrorCode
from simulator.runner import run_scenario
from tests.support.simulation.mutants import Mutation, assert_caught

# Faults last shorter than in `make simulate`. Today the first seed catches its bug; if brokers draw other
# random numbers, one of the next seeds does.
LENGTH = 0.4
SEEDS_MAX = 25


def reply_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """The leader's own log counts as committed."""

    def release(self: MachineHost) -> None:
        while self._pending and self._pending[0].end_offset >= 0:
            for request, reply in self._pending.popleft().replies:
                request.answer(reply)

    patch.setattr(MachineHost, "release", release)


def do_not_load_offsets(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator loads the members of its groups, but not their offsets."""
    load = OffsetLoader.load

    def forgetful(self: OffsetLoader, key: bytes, value: bytes | None) -> bool:
        return load(self, key, None)

    patch.setattr(OffsetLoader, "load", forgetful)


def accept_an_old_generation(patch: pytest.MonkeyPatch) -> None:
    """Former members may commit."""
    patch.setattr(ClassicGroup, "check_offset_commit", lambda *args, **named: ErrorCode.NONE)
    patch.setattr(ConsumerGroup, "check_offset_commit", lambda *args, **named: ErrorCode.NONE)
    patch.setattr(ConsumerGroup, "check_partition_commit", lambda *args: ErrorCode.NONE)


def assign_before_the_revocation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "owner", lambda self, topic_id, partition: None)


def start_generations_without_waiting(patch: pytest.MonkeyPatch) -> None:
    """A generation starts without waiting for all members to rejoin."""
    patch.setattr(ClassicGroup, "has_all_joined", property(lambda self: True))


def never_expire_sessions(patch: pytest.MonkeyPatch) -> None:
    """Sessions never expire."""
    patch.setattr(Rebalancing, "_session_is_over", lambda *args: None)


def rebalance_for_a_static_member(patch: pytest.MonkeyPatch) -> None:
    def recreated(
        self: Join, outcome: Any, group: Any, member: Any, old_leader_id: str, ctx: Any, now_ms: int
    ) -> None:
        self.rebalancing.park_join(outcome, group, member, ctx)
        trigger = rebalance.member_trigger("", member, now_ms)
        self.rebalancing.prepare(outcome, group, trigger, now_ms)

    from ottla.groups.classic import rebalance

    patch.setattr(Join, "_take_over", recreated)


def commit_one_too_many(patch: pytest.MonkeyPatch) -> None:
    write = Commit._write_offset

    def generous(
        self: Commit, outcome: Any, request: Any, topic: str, topic_id: Any, row: Any, now_ms: int
    ) -> None:
        row.committed_offset += 1
        write(self, outcome, request, topic, topic_id, row, now_ms)

    patch.setattr(Commit, "_write_offset", generous)


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


def expire_sessions_by_wall_clock(patch: pytest.MonkeyPatch) -> None:
    """Sessions expire when the clock jumps."""
    patch.setattr(GroupShard, "clock_jumped", lambda self, by_ms: None)


def test_a_small_clock_jump_expires_no_session() -> None:
    """Seed 45011: a jump of 370 ms, which once expired sessions."""
    assert run_scenario("groups-kill", 45011).complaints == []


def test_a_group_that_becomes_classic_completes_its_reassignment() -> None:
    """Seed 60004: two partitions stayed without an owner."""
    assert run_scenario("groups", 60004).complaints == []


@pytest.mark.parametrize(
    ("mutate", "scenario", "first", "expected"),
    [
        (reply_before_the_commit, "groups-net", 3, ("lost offset", "two owners", "went back")),
        (do_not_load_offsets, "groups", 2, ("lost offset",)),
        (accept_an_old_generation, "groups", 5, ("went back",)),
        (assign_before_the_revocation, "groups", 2, ("two owners",)),
        (start_generations_without_waiting, "groups", 1, ("two owners",)),
        (never_expire_sessions, "groups", 8, ("unstable",)),
        (rebalance_for_a_static_member, "groups", 1, ("extra rebalance",)),
        (forget_the_end_of_the_log, "groups-kill", 1, ("lost offset", "two owners", "went back")),
        (keep_one_replica, "groups-power", 5, ("lost offset",)),
        (expire_sessions_by_wall_clock, "groups-kill", 4, ("two owners",)),
        (commit_one_too_many, "groups", 2, ("skipped", "lost offset")),
    ],
)
def test_a_group_mutant_is_caught(
    mutate: Mutation, scenario: str, first: int, expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    assert_caught(mutate, scenario, range(first, first + SEEDS_MAX), expected, length=LENGTH)
