"""Planted mistakes: the random worlds must notice each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.machines.outcome import Outcome
from ottla.transactions import end, init, partition, transaction
from ottla.transactions.context import ShardContext
from ottla.transactions.marker_queue import MarkerQueue
from tests.support.transactions import world
from tests.support.transactions.clients import Crowd

Patch = pytest.MonkeyPatch
SEEDS = 300


def markers_before_the_commit(patch: Patch) -> None:
    take = world.Coordinator.take

    def hasty(self: Any, outcome: Outcome, answer: Any) -> None:
        markers, outcome.effects = outcome.effects, []
        for each in markers:
            self.queue.add(0, each, self.world.now_ms)
        take(self, outcome, answer)

    patch.setattr(world.Coordinator, "take", hasty)


def answers_before_the_commit(patch: Patch) -> None:
    take = world.Coordinator.take

    def hasty(self: Any, outcome: Outcome, answer: Any) -> None:
        answer(outcome.reply)
        take(self, outcome, lambda reply: None)

    patch.setattr(world.Coordinator, "take", hasty)


def first_writes_without_a_guard(patch: Patch) -> None:
    patch.setattr(partition, "needs_verification", lambda entry, epoch: False)


def an_open_transaction_of_another_epoch_is_taken_for_ones_own(patch: Patch) -> None:
    def careless(entry: Any, epoch: int) -> bool:
        return entry is None or entry.current_txn_first_offset < 0

    patch.setattr(partition, "needs_verification", careless)


def late_markers_are_accepted(patch: Patch) -> None:
    check = partition.check_marker
    patch.setattr(
        partition,
        "check_marker",
        lambda entry, epoch, coordinator, version: check(entry, epoch, coordinator, 0),
    )


def earlier_coordinators_are_heard(patch: Patch) -> None:
    check = partition.check_marker
    patch.setattr(
        partition,
        "check_marker",
        lambda entry, epoch, coordinator, version: check(entry, epoch, 1 << 30, version),
    )


def fencing_leaves_the_epoch(patch: Patch) -> None:
    fence = end.End.fence

    def soft(self: Any, outcome: Outcome, found: Any, now_ms: int) -> None:
        lower = found.copy()
        lower.producer_epoch -= 1
        fence(self, outcome, lower, now_ms)

    patch.setattr(end.End, "fence", soft)


def a_new_instance_gets_the_epoch_of_the_old_one(patch: Patch) -> None:
    begin = init.Init._begin

    def same(self: Any, found: Any, expected: Any, *rest: Any) -> Outcome:
        lower = found.copy()
        lower.producer_epoch -= expected is None
        return begin(self, lower, expected, *rest)

    patch.setattr(init.Init, "_begin", same)


def an_ongoing_transaction_is_left_to_the_next_instance(patch: Patch) -> None:
    patch.setattr(init, "ONGOING", 99)
    patch.setattr(init.Init, "_empty", _empty_of_ongoing)


def _empty_of_ongoing(self: Any, changed: Any, now_ms: int, *, resumed: bool) -> Outcome:
    outcome = Outcome()
    found = self.context.write(outcome, changed, now_ms)
    outcome.reply = init.InitProducerIdResponse(producer_id=found.client[0], producer_epoch=found.client[1])
    return outcome


def markers_are_not_sent_again_after_fail_over(patch: Patch) -> None:
    patch.setattr(end.End, "loaded", lambda self, outcome, now_ms: None)


def lost_markers_are_taken_for_written(patch: Patch) -> None:
    def careless(self: Any, request: Any, now_ms: int) -> None:
        self._request_done(request)
        for job, partitions in request.jobs.items():
            for each in partitions:
                self._written(job, each)

    patch.setattr(MarkerQueue, "failed", careless)


def a_prepared_transaction_may_be_ended_otherwise(patch: Patch) -> None:
    fence = end.End.fence

    def early(self: Any, outcome: Outcome, now_ms: int) -> None:
        for found in [*self.context.transactions.values()]:
            if found.state == transaction.PREPARE_COMMIT and found.start_ms + found.timeout_ms <= now_ms:
                again = found.copy()
                again.state = transaction.ONGOING
                again.producer_epoch -= 1
                fence(self, outcome, again, now_ms)

    patch.setattr(end.End, "time_out", early)
    patch.setattr(world.TransactionShard, "next_wake_ms", property(lambda self: 0))


def nothing_times_out(patch: Patch) -> None:
    patch.setattr(end.End, "time_out", lambda self, outcome, now_ms: None)


def partitions_are_forgotten_when_others_come(patch: Patch) -> None:
    write = ShardContext.write

    def careless(self: Any, outcome: Outcome, changed: Any, now_ms: int) -> Any:
        if len(changed.partitions) > 1:
            changed.partitions = dict([*changed.partitions.items()][1:])
        return write(self, outcome, changed, now_ms)

    patch.setattr(ShardContext, "write", careless)


def two_phase_transactions_time_out(patch: Patch) -> None:
    patch.setattr(init, "NO_TIMEOUT_MS", 300)


def a_kept_transaction_is_ended_by_the_instance_before(patch: Patch) -> None:
    patch.setattr(
        transaction.Transaction,
        "client",
        property(lambda self: (self.producer_id, self.producer_epoch)),
    )


@pytest.mark.parametrize(
    ("mutant", "version"),
    [
        (markers_before_the_commit, 1),
        (markers_before_the_commit, 2),
        (answers_before_the_commit, 1),
        (answers_before_the_commit, 2),
        (first_writes_without_a_guard, 2),
        (an_open_transaction_of_another_epoch_is_taken_for_ones_own, 2),
        (late_markers_are_accepted, 2),
        (earlier_coordinators_are_heard, 1),
        (fencing_leaves_the_epoch, 1),
        (fencing_leaves_the_epoch, 2),
        (a_new_instance_gets_the_epoch_of_the_old_one, 1),
        (a_new_instance_gets_the_epoch_of_the_old_one, 2),
        (an_ongoing_transaction_is_left_to_the_next_instance, 2),
        (markers_are_not_sent_again_after_fail_over, 1),
        (lost_markers_are_taken_for_written, 1),
        (lost_markers_are_taken_for_written, 2),
        (a_prepared_transaction_may_be_ended_otherwise, 1),
        (a_prepared_transaction_may_be_ended_otherwise, 2),
        (nothing_times_out, 1),
        (partitions_are_forgotten_when_others_come, 1),
        (two_phase_transactions_time_out, 2),
        (a_kept_transaction_is_ended_by_the_instance_before, 2),
    ],
)
def test_a_planted_mistake_is_noticed(
    mutant: Callable[[Patch], None], version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    for seed in range(SEEDS):
        try:
            Crowd(seed, version).play(6_000)
        except (AssertionError, KeyError, StopIteration) as error:
            print(mutant.__name__, version, seed, str(error)[:120])
            return
    pytest.fail(f"no invariant failed in {SEEDS} worlds")


@pytest.mark.parametrize("version", [1, 2])
def test_epochs_may_run_out_at_any_moment(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (transaction, init, end):
        for name, value in (("EPOCH_MAX", 4), ("CLIENT_EPOCH_MAX", 3)):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)
    ids = 0
    for seed in range(40):
        crowd = Crowd(seed, version)
        crowd.play(6_000)
        assert max(epoch for _, epoch in crowd.owners) <= 3
        ids += next(crowd.world.fresh_ids) - 100
    assert ids > 200, ids
