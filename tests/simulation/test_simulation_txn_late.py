"""Late requests of transactions: bugs that let them have their way are caught, each by a few seeds.

They are too rare for stories in which everything is left to chance; here each is arranged."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.coordinators import marker_writer, produce_verification
from ottla.broker.coordinators.verification import Verification
from ottla.broker.hosting.host import MachineHost
from ottla.protocol.errors import ErrorCode
from ottla.records.batch import BatchHeader
from ottla.storage.producers.state import ProducerState
from ottla.transactions.partition import VerificationGuards
from simulator.transactions.client import TxnClient
from simulator.transactions.late_requests import late_requests
from tests.support.simulation.mutants import Plant, assert_all_told

SEEDS_MAX = 6
SOME_VERSION = 1  # in which epochs stay the same
LAST_EPOCH = 0x7FFFFFFF


def believe_writers(patch: pytest.MonkeyPatch) -> None:
    """Leaders do not ask whether a partition was added to the transaction."""
    patch.setattr(Verification, "is_wanted", lambda self, adds: adds)


def believe_what_was_said_before_the_marker(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(VerificationGuards, "ended", lambda *args: None)


def write_every_marker(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(marker_writer, "check_marker", lambda *args: ErrorCode.NONE)
    patch.setattr(ProducerState, "check_marker", lambda *args: None)


def believe_old_coordinators(patch: pytest.MonkeyPatch) -> None:
    """The epoch of the coordinator does not count."""
    check_marker, check_again = marker_writer.check_marker, ProducerState.check_marker

    def generous(entry: Any, producer_epoch: int, coordinator_epoch: int, version: int) -> ErrorCode:
        return check_marker(entry, producer_epoch, LAST_EPOCH, version)

    def generous_again(self: ProducerState, producer_id: int, producer_epoch: int, epoch: int) -> None:
        check_again(self, producer_id, producer_epoch, LAST_EPOCH)

    patch.setattr(marker_writer, "check_marker", generous)
    patch.setattr(ProducerState, "check_marker", generous_again)


def take_a_marker_for_that_of_the_next(patch: pytest.MonkeyPatch) -> None:
    """Where epochs change with every transaction: one that has the epoch of the open transaction is late."""
    check_marker = marker_writer.check_marker

    def generous(entry: Any, producer_epoch: int, coordinator_epoch: int, version: int) -> ErrorCode:
        return check_marker(entry, producer_epoch, coordinator_epoch, SOME_VERSION)

    patch.setattr(marker_writer, "check_marker", generous)


def decided_by_the_leader_alone(patch: pytest.MonkeyPatch) -> None:
    """A marker counts before it is replicated."""
    end = ProducerState.end_transaction

    def at_once(self: ProducerState, *args: Any, **named: Any) -> Any:
        completed = end(self, *args, **named)
        self._unreplicated.clear()
        return completed

    patch.setattr(ProducerState, "end_transaction", at_once)


def forget_epochs(patch: pytest.MonkeyPatch) -> None:
    """A partition takes batches of any epoch."""
    judge = ProducerState.check

    def generous(self: ProducerState, header: BatchHeader) -> Any:
        entry = self.entries.get(header.producer_id)
        if entry is not None and header.producer_epoch < entry.producer_epoch:
            return None
        return judge(self, header)

    patch.setattr(ProducerState, "check", generous)


def ask_about_repetitions(patch: pytest.MonkeyPatch) -> None:
    """The copy of a batch that is in the log has a guard like any other, which the next batch is behind."""
    patch.setattr(produce_verification, "is_past", lambda *args: False)


def answer_at_once(patch: pytest.MonkeyPatch) -> None:
    """What a coordinator has in its own log counts for decided."""

    release_committed = MachineHost.release

    def release(self: MachineHost) -> None:
        for batch in self._pending:
            if batch.end_offset >= 0:
                replies, batch.replies = batch.replies, []
                for request, reply in replies:
                    request.answer(reply)
        release_committed(self)

    patch.setattr(MachineHost, "release", release)


def keep_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """A producer of the first version goes on after an end that was not answered (KAFKA-17754)."""

    async def renew(self: TxnClient) -> None:
        self.must_bump = False

    patch.setattr(TxnClient, "renew", renew)


@pytest.mark.parametrize(
    ("plant", "signs"),
    [
        (believe_writers, ["later transaction", "hanging"]),
        (believe_what_was_said_before_the_marker, ["later transaction", "hanging"]),
        (write_every_marker, ["later transaction", "aborted read", "torn"]),
        (believe_old_coordinators, ["later transaction"]),
        (take_a_marker_for_that_of_the_next, ["later transaction"]),
        (decided_by_the_leader_alone, ["stable offset went back"]),
        (answer_at_once, ["lost transaction"]),
        (ask_about_repetitions, ["surprise"]),
        (forget_epochs, ["old epoch"]),
        (keep_the_epoch, ["later transaction"]),
    ],
)
def test_what_is_late_and_let_in_is_caught(
    plant: Plant, signs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert_all_told(plant, late_requests, range(1, SEEDS_MAX + 1), signs)
