"""Bugs that only coordinators of groups can have, planted in the shipped classes: a few seeds catch each.

Those of the shell around them, too: what it answers, reads again and keeps.
"""

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
from tests.support.simulation.mutants import Plant, assert_caught

# The trouble is shorter than that of `make simulate`. The first seed catches its bug as long as brokers draw
# what they draw today; else one of the next does.
LENGTH = 0.4
SEEDS_MAX = 25


def reply_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """What is in the leader's own log counts for committed."""

    def release(self: MachineHost) -> None:
        while self._pending and self._pending[0].end_offset >= 0:
            for request, reply in self._pending.popleft().replies:
                request.answer(reply)

    patch.setattr(MachineHost, "release", release)


def do_not_load_offsets(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator knows the members of its groups, but not how far they were."""
    load = OffsetLoader.load

    def forgetful(self: OffsetLoader, key: bytes, value: bytes | None) -> bool:
        return load(self, key, None)

    patch.setattr(OffsetLoader, "load", forgetful)


def accept_an_old_generation(patch: pytest.MonkeyPatch) -> None:
    """Whoever was a member once may commit."""
    patch.setattr(ClassicGroup, "check_offset_commit", lambda *args, **named: ErrorCode.NONE)
    patch.setattr(ConsumerGroup, "check_offset_commit", lambda *args, **named: ErrorCode.NONE)
    patch.setattr(ConsumerGroup, "check_partition_commit", lambda *args: ErrorCode.NONE)


def assign_before_the_revocation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "owner", lambda self, topic_id, partition: None)


def wait_for_nobody(patch: pytest.MonkeyPatch) -> None:
    """A generation begins with whoever has joined; the others are not asked."""
    patch.setattr(ClassicGroup, "has_all_joined", property(lambda self: True))


def forget_nobody(patch: pytest.MonkeyPatch) -> None:
    """The session of a member never ends."""
    patch.setattr(Rebalancing, "_session_is_over", lambda *args: None)


def rebalance_for_a_static_member(patch: pytest.MonkeyPatch) -> None:
    def anew(
        self: Join, outcome: Any, group: Any, member: Any, old_leader_id: str, ctx: Any, now_ms: int
    ) -> None:
        self.rebalancing.park_join(outcome, group, member, ctx)
        trigger = rebalance.member_trigger("", member, now_ms)
        self.rebalancing.prepare(outcome, group, trigger, now_ms)

    from ottla.groups.classic import rebalance

    patch.setattr(Join, "_take_over", anew)


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


def believe_the_clock(patch: pytest.MonkeyPatch) -> None:
    """Sessions end when the clock is set."""
    patch.setattr(GroupShard, "clock_jumped", lambda self, by_ms: None)


def test_a_clock_that_is_set_by_less_than_a_second_ends_no_session() -> None:
    """Seed 45011: by 370 ms, which was once let pass."""
    assert run_scenario("groups-kill", 45011).complaints == []


def test_a_group_that_turns_classic_in_the_middle_of_a_move_goes_on_with_it() -> None:
    """Seed 60004: two partitions had no owner to the end."""
    assert run_scenario("groups", 60004).complaints == []


@pytest.mark.parametrize(
    ("plant", "scenario", "first", "signs"),
    [
        (reply_before_the_commit, "groups-net", 3, ("lost offset", "two owners", "went back")),
        (do_not_load_offsets, "groups", 2, ("lost offset",)),
        (accept_an_old_generation, "groups", 5, ("went back",)),
        (assign_before_the_revocation, "groups", 2, ("two owners",)),
        (wait_for_nobody, "groups", 1, ("two owners",)),
        (forget_nobody, "groups", 8, ("unstable",)),
        (rebalance_for_a_static_member, "groups", 1, ("extra rebalance",)),
        (forget_the_end_of_the_log, "groups-kill", 1, ("lost offset", "two owners", "went back")),
        (keep_one_replica, "groups-power", 5, ("lost offset",)),
        (believe_the_clock, "groups-kill", 4, ("two owners",)),
        (commit_one_too_many, "groups", 2, ("skipped", "lost offset")),
    ],
)
def test_a_planted_bug_of_groups_is_caught(
    plant: Plant, scenario: str, first: int, signs: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert_caught(plant, scenario, range(first, first + SEEDS_MAX), signs, length=LENGTH)
