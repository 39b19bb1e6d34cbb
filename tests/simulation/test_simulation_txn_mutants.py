"""Bugs of transactions, planted in the shipped classes: a few seeds must catch each."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.hosting.host import MachineHost
from ottla.groups.offset_table import GroupOffsets
from ottla.storage.log import PartitionLog
from ottla.storage.producers.state import ProducerState
from ottla.transactions import init as init_module
from ottla.transactions.config import NO_TIMEOUT_MS
from ottla.transactions.end import End
from ottla.transactions.marker_queue import MarkerQueue, MarkerRequest
from ottla.transactions.transaction import ONGOING, Transaction
from simulator.transactions.scenario import transactions
from tests.support.simulation.mutants import Plant, assert_all_told

SEEDS_MAX = 12
# Shorter than those of `make simulate`, and with what catches most. The first seed catches its bug as long as
# brokers draw what they draw today; else one of the next does.
SCRIPT = transactions(("kill-in-flight", "kill-in-flight", "kill", "slow-net"), duration_s=2.8, slow_links=6)


def answer_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """What is in the coordinator's own log counts for committed."""

    def release(self: MachineHost) -> None:
        while self._pending and self._pending[0].end_offset >= 0:
            batch = self._pending.popleft()
            for request, reply in batch.replies:
                request.answer(reply)
            if batch.effects:
                self._on_effects(batch.effects)

    patch.setattr(MachineHost, "release", release)


def tell_nothing_of_the_aborted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLog, "aborted_transactions", lambda *args: [])


def forget_the_prepared(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator does not go on with what the one before has decided."""

    def loaded(self: End, outcome: Any, now_ms: int) -> None:
        for transaction in self.context.transactions.values():
            self.context.watch(transaction)

    patch.setattr(End, "loaded", loaded)


def send_markers_once(patch: pytest.MonkeyPatch) -> None:
    """What a leader did not answer counts for written."""

    def failed(self: MarkerQueue, request: MarkerRequest, now_ms: int) -> None:
        self._arrived(request)
        for job, partitions in request.jobs.items():
            for partition in partitions:
                self._written(job, partition)

    patch.setattr(MarkerQueue, "failed", failed)


def fence_nobody(patch: pytest.MonkeyPatch) -> None:
    """The coordinator does not look at epochs."""
    patch.setattr(Transaction, "refuses", lambda self, producer_id, producer_epoch: None)


def give_the_same_epoch(patch: pytest.MonkeyPatch) -> None:
    begin = init_module.Init._begin

    def again(self: Any, transaction: Transaction, *args: Any) -> Any:
        before = transaction.copy()
        before.producer_epoch = max(transaction.producer_epoch - 1, 0)
        return begin(self, before, *args)

    patch.setattr(init_module.Init, "_begin", again)


def let_it_run_for_ever(patch: pytest.MonkeyPatch) -> None:
    def time_out(self: End, outcome: Any, now_ms: int) -> None:
        while self.context.deadlines.pop_due(now_ms) is not None:
            pass

    patch.setattr(End, "time_out", time_out)


def time_out_the_prepared(patch: pytest.MonkeyPatch) -> None:
    deadline_ms = Transaction.deadline_ms

    def soon(self: Transaction) -> int | None:
        if self.state == ONGOING and self.timeout_ms == NO_TIMEOUT_MS:
            return self.start_ms + 300
        return deadline_ms.__get__(self)

    patch.setattr(Transaction, "deadline_ms", property(soon))


def stable_up_to_the_newest(patch: pytest.MonkeyPatch) -> None:
    """The transaction that was opened last says what is stable, not the first."""

    def generous(self: ProducerState, high_watermark: int) -> int:
        return min(high_watermark, next(reversed(self._ongoing), high_watermark))

    patch.setattr(ProducerState, "last_stable_offset", generous)


def commit_offsets_at_once(patch: pytest.MonkeyPatch) -> None:
    """Offsets of a transaction count before it is committed."""

    def put(self: GroupOffsets, producer_id: int, topic: str, partition: int, committed: Any) -> None:
        self.put(topic, partition, committed)

    patch.setattr(GroupOffsets, "put_pending", put)


def drop_offsets(patch: pytest.MonkeyPatch) -> None:
    """Offsets of a transaction are forgotten when it ends, however it does."""
    end = GroupOffsets.end_transaction

    def forget(self: GroupOffsets, producer_id: int, committed: bool) -> None:
        end(self, producer_id, False)

    patch.setattr(GroupOffsets, "end_transaction", forget)


def append_duplicates(patch: pytest.MonkeyPatch) -> None:
    """A batch that comes again is written again."""
    judge = ProducerState.check

    def forgetful(self: ProducerState, header: Any) -> Any:
        found = judge(self, header)
        return None if header.is_transactional else found

    patch.setattr(ProducerState, "check", forgetful)


@pytest.mark.parametrize(
    ("plant", "first", "signs"),
    [
        (answer_before_the_commit, 2, ["pair twice"]),
        (tell_nothing_of_the_aborted, 2, ["aborted read", "bank"]),
        (append_duplicates, 4, ["twice"]),
        (send_markers_once, 9, ["later transaction"]),
        (fence_nobody, 2, ["lost transaction", "torn", "zombie"]),
        (stable_up_to_the_newest, 2, ["stable offset went back"]),
        (forget_the_prepared, 1, ["hanging"]),
        (let_it_run_for_ever, 3, ["hanging"]),
        (commit_offsets_at_once, 2, ["exactly once"]),
        (drop_offsets, 1, ["exactly once"]),
        (give_the_same_epoch, 1, ["pair twice"]),
        (time_out_the_prepared, 1, ["prepared lost"]),
    ],
)
def test_a_planted_bug_of_transactions_is_caught(
    plant: Plant, first: int, signs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert_all_told(plant, SCRIPT, range(first, first + SEEDS_MAX), signs)
