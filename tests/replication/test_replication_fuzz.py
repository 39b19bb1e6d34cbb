"""Thousands of schedules of a troubled cluster: the shipped machines keep the promises, broken ones are
caught.
"""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.replication.follower import APPEND, FollowerState
from ottla.replication.leader import LeaderState
from ottla.replication.progress import FollowerProgress
from tests.support.replication.memory_cluster import run_schedule

SCHEDULES = 1000
MUTANT_SCHEDULES_MAX = 4000


def test_no_schedule_breaks_a_promise() -> None:
    acked = 0
    for seed in range(SCHEDULES):
        try:
            acked += run_schedule(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    assert acked > SCHEDULES * 10  # the schedules are not all outage


def test_no_change_of_min_isr_breaks_a_promise() -> None:
    """The controller's answers overtake the metadata, which bring the minimum."""
    for seed in range(SCHEDULES):
        try:
            run_schedule(seed, min_isr_changes=True)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


class CommittedIsrOnly(LeaderState):
    """Forgets that the controller may already have accepted the member that is joining."""

    __slots__ = ()

    def _holds_back(self, follower: FollowerProgress, now_ms: int) -> bool:
        return follower.node_id in self.isr


class CountsOutOfSync(LeaderState):
    """Lets a follower join that has not reached the high watermark."""

    __slots__ = ()

    def _may_join(self, follower: FollowerProgress, now_ms: int) -> bool:
        return follower.end_offset >= 0 and self._eligible(follower.node_id, follower.broker_epoch)


class IgnoresMinIsr(LeaderState):
    """Moves the high watermark with a single member in the ISR."""

    __slots__ = ()

    @property
    def effective_min_isr(self) -> int:
        return 1

    def admit(self) -> ErrorCode:
        return ErrorCode.NOT_ENOUGH_REPLICAS if len(self.isr) < self.min_isr else ErrorCode.NONE


class ErrorMeansNo(LeaderState):
    """Takes a proposal that got no clear answer for one that was not applied.

    The wait for replicas that are about to join nearly always hides it, so this leader does not have that
    either.
    """

    __slots__ = ()

    def _holds_back(self, follower: FollowerProgress, now_ms: int) -> bool:
        return follower.node_id in self.maximal_isr

    def alter_partition_result(self, change: Any, error_code: int, now_ms: int, **answer: Any) -> int:
        if error_code != ErrorCode.NONE:
            error_code = ErrorCode.OPERATION_NOT_ATTEMPTED
        return super().alter_partition_result(change, error_code, now_ms, **answer)


class ShrinksByResponse(LeaderState):
    """Does not wait for a member that the controller has removed, before its own metadata say so."""

    __slots__ = ()

    def _update_waits_for(self) -> None:
        self._waits_for = self.maximal_isr


class CompletesMinimumByResponse(LeaderState):
    """Counts a new member for the minimum before its own metadata have it."""

    __slots__ = ()

    def alter_partition_result(self, *arguments: Any, **answer: Any) -> int:
        super().alter_partition_result(*arguments, **answer)
        self._metadata_isr = tuple(dict.fromkeys((*self._metadata_isr, *self.isr)))
        return self.tick(arguments[2])


class ForgetsPassingMembers(LeaderState):
    """Forgets a member that joined and left between two versions of its own metadata."""

    __slots__ = ()

    def _update_waits_for(self) -> None:
        self._waits_for = (*self.maximal_isr, *self._metadata_isr)


class NobodysIncarnation(LeaderState):
    """Proposes members without saying which incarnation it saw (KIP-903)."""

    __slots__ = ()

    def isr_change_proposal(self, now_ms: int) -> Any:
        change = super().isr_change_proposal(now_ms)
        if change is not None:
            change.broker_epochs.clear()
        return change


class CountsOnlyItself(LeaderState):
    """Acknowledges what the leader alone has."""

    __slots__ = ()

    def _holds_back(self, follower: FollowerProgress, now_ms: int) -> bool:
        return False


class NeverTruncates(FollowerState):
    """Hides its last epoch, so that the leader cannot see that the logs differ."""

    __slots__ = ()

    @property
    def last_fetched_epoch(self) -> int:
        return -1


class IgnoresDivergence(FollowerState):
    """Learns where the logs diverge, and continues."""

    __slots__ = ()

    def answered(self, data: Any, now_ms: int) -> Any:
        step = super().answered(data, now_ms)
        return APPEND if data.error_code == ErrorCode.NONE else step


class BelievesLeaderMark(FollowerState):
    """Takes the leader's high watermark for its own, though its log is shorter."""

    __slots__ = ()

    def appended(self, leader_high_watermark: int, leader_log_start_offset: int) -> Any:
        step = super().appended(leader_high_watermark, leader_log_start_offset)
        self.high_watermark = max(self.high_watermark, leader_high_watermark)
        return step


class TruncatesToMark(FollowerState):
    """Cuts at its own high watermark, as before KIP-101."""

    __slots__ = ()

    def new_leader(self, leader_id: int, leader_epoch: int, in_isr: bool = False) -> Any:
        if leader_epoch > self.leader_epoch:
            log: Any = self.log
            log.truncate_to(max(self.high_watermark, log.log_start_offset))
        return super().new_leader(leader_id, leader_epoch, in_isr)


@pytest.mark.parametrize(
    "machines",
    [
        {"leader_class": CommittedIsrOnly},
        {"leader_class": CountsOutOfSync},
        {"leader_class": IgnoresMinIsr},
        {"leader_class": ErrorMeansNo},
        {"leader_class": NobodysIncarnation},
        {"leader_class": CountsOnlyItself},
        {"follower_class": NeverTruncates},
        {"follower_class": IgnoresDivergence},
        {"follower_class": BelievesLeaderMark},
        {"follower_class": TruncatesToMark},
    ],
    ids=lambda machines: next(iter(machines.values())).__name__,
)
def test_a_planted_bug_is_caught(machines: dict[str, Any]) -> None:
    assert_caught(machines)


@pytest.mark.parametrize(
    ("leader_class", "first_seed"),
    [(ShrinksByResponse, 0), (CompletesMinimumByResponse, 0), (ForgetsPassingMembers, 1000)],
)
def test_a_planted_bug_is_caught_by_changes_of_min_isr(
    leader_class: type[LeaderState], first_seed: int
) -> None:
    assert_caught({"leader_class": leader_class, "min_isr_changes": True}, first_seed)


def assert_caught(machines: dict[str, Any], first_seed: int = 0) -> None:
    for seed in range(first_seed, first_seed + MUTANT_SCHEDULES_MAX):
        try:
            run_schedule(seed, **machines)
        except AssertionError:
            return
    pytest.fail(f"{MUTANT_SCHEDULES_MAX} schedules did not catch it")
