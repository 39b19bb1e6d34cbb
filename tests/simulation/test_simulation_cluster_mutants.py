"""A few seeds catch each mutant of replication and the metadata quorum."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.metadata.raft_driver import RaftDriver
from ottla.broker.replicas.partition import Partition
from ottla.controller.partitions import alter_partition
from ottla.controller.partitions.rules import PartitionRules
from ottla.quorum.raft.leader import Leader
from ottla.quorum.raft_log import RaftLog
from ottla.replication.follower import FollowerState
from ottla.replication.leader import HIGH_WATERMARK_MOVED, LeaderState
from tests.support.simulation.mutants import Mutation, assert_caught, show_what_is_not_committed

# Faults last shorter than in `make simulate`. Today the first seed catches its bug; if brokers draw other
# random numbers, one of the next seeds does.
LENGTH = 0.4
SEEDS_MAX = 25


def count_a_follower_out_of_sync(patch: pytest.MonkeyPatch) -> None:
    """Followers outside of the ISR count for the high watermark."""

    def advance(self: LeaderState, now_ms: int) -> int:
        ends = [follower.end_offset for follower in self.followers.values()]
        mark = min(self.counted_end_offset, max(ends, default=self.counted_end_offset))
        if mark <= self.high_watermark:
            return 0
        self.high_watermark = mark
        return HIGH_WATERMARK_MOVED

    patch.setattr(LeaderState, "_advance", advance)


def follow_without_truncation(patch: pytest.MonkeyPatch) -> None:
    """A follower does not send its last epoch, so the leader reports no divergence."""
    patch.setattr(FollowerState, "last_fetched_epoch", property(lambda self: -1))


def forget_the_vote(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RaftLog, "persist", lambda self, state: None)


def acknowledge_before_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "when_committed", lambda self, end_offset, waiter, *, local=False: False)


def shrink_before_the_controller_agrees(patch: pytest.MonkeyPatch) -> None:
    propose = LeaderState.isr_change_proposal

    def hasty(self: LeaderState, now_ms: int) -> Any:
        change = propose(self, now_ms)
        if change is not None:
            self.isr = self.maximal_isr = self._metadata_isr = self._waits_for = change.isr
        return change

    patch.setattr(LeaderState, "isr_change_proposal", hasty)


def elect_any_replica(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionRules, "unclean_allowed", lambda self, topic: True)


def accept_isr_changes_of_deposed_leaders(patch: pytest.MonkeyPatch) -> None:
    """The controller does not check who requests an ISR change."""
    patch.setattr(alter_partition, "_check_epochs", lambda *args: None)
    patch.setattr(alter_partition, "_check_isr", lambda *args: None)


def replicate_unflushed_records(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FollowerState, "wait_for_flush", lambda self: None)


def commit_metadata_alone(patch: pytest.MonkeyPatch) -> None:
    """The quorum leader commits without a majority."""

    def alone(self: Leader) -> None:
        if self.own_offset > self.start_offset:
            self.is_established = True
            self.node.raise_high_watermark(self.own_offset)

    patch.setattr(Leader, "update_high_watermark", alone)


def apply_uncommitted_metadata(patch: pytest.MonkeyPatch) -> None:
    append = RaftDriver.append

    def hasty(self: RaftDriver, messages: Any, epoch: int) -> int:
        last_offset = append(self, messages, epoch)
        self._listener.committed(last_offset + 1)
        return last_offset

    patch.setattr(RaftDriver, "append", hasty)


LOSS = ("lost", "two values", "lost read", "replicas differ")


@pytest.mark.parametrize(
    ("mutate", "scenario", "first", "expected"),
    [
        (count_a_follower_out_of_sync, "cluster-kill", 4, LOSS),
        (follow_without_truncation, "cluster-net", 2, ("unavailable", *LOSS)),
        (forget_the_vote, "quorum", 3, ("two leaders", "lost")),
        (acknowledge_before_the_high_watermark, "cluster-kill", 2, LOSS),
        (show_what_is_not_committed, "cluster-net", 2, LOSS),
        (shrink_before_the_controller_agrees, "cluster-net", 5, LOSS),
        (elect_any_replica, "cluster-kill", 2, ("unclean", *LOSS)),
        (accept_isr_changes_of_deposed_leaders, "cluster-net", 5, ("unclean", *LOSS)),
        (replicate_unflushed_records, "cluster-power", 6, LOSS),
        (commit_metadata_alone, "quorum", 7, ("lost", "two leaders")),
        (apply_uncommitted_metadata, "quorum", 8, ("lost", "two leaders")),
    ],
)
def test_a_cluster_mutant_is_caught(
    mutate: Mutation, scenario: str, first: int, expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    assert_caught(mutate, scenario, range(first, first + SEEDS_MAX), expected, length=LENGTH)
