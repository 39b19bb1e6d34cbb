"""A few seeds of the late-requests scenario catch each mutant that accepts a late request."""

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
from tests.support.simulation.mutants import Mutation, assert_all_reported

SEEDS_MAX = 6
SOME_VERSION = 1  # in which epochs stay the same
LAST_EPOCH = 0x7FFFFFFF


def skip_verification(patch: pytest.MonkeyPatch) -> None:
    """Leaders do not verify that a partition was added to the transaction."""
    patch.setattr(Verification, "is_wanted", lambda self, adds: adds)


def keep_verifications_after_a_marker(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(VerificationGuards, "ended", lambda *args: None)


def write_every_marker(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(marker_writer, "check_marker", lambda *args: ErrorCode.NONE)
    patch.setattr(ProducerState, "check_marker", lambda *args: None)


def accept_old_coordinators(patch: pytest.MonkeyPatch) -> None:
    """The coordinator epoch is ignored."""
    check_marker, check_again = marker_writer.check_marker, ProducerState.check_marker

    def generous(entry: Any, producer_epoch: int, coordinator_epoch: int, version: int) -> ErrorCode:
        return check_marker(entry, producer_epoch, LAST_EPOCH, version)

    def generous_again(self: ProducerState, producer_id: int, producer_epoch: int, epoch: int) -> None:
        check_again(self, producer_id, producer_epoch, LAST_EPOCH)

    patch.setattr(marker_writer, "check_marker", generous)
    patch.setattr(ProducerState, "check_marker", generous_again)


def accept_a_late_marker(patch: pytest.MonkeyPatch) -> None:
    """Version 2 changes epochs with every transaction: a marker with the epoch of the open one is late."""
    check_marker = marker_writer.check_marker

    def generous(entry: Any, producer_epoch: int, coordinator_epoch: int, version: int) -> ErrorCode:
        return check_marker(entry, producer_epoch, coordinator_epoch, SOME_VERSION)

    patch.setattr(marker_writer, "check_marker", generous)


def decide_before_replication(patch: pytest.MonkeyPatch) -> None:
    """A marker takes effect before it is replicated."""
    end = ProducerState.end_transaction

    def at_once(self: ProducerState, *args: Any, **named: Any) -> Any:
        completed = end(self, *args, **named)
        self._unreplicated.clear()
        return completed

    patch.setattr(ProducerState, "end_transaction", at_once)


def accept_every_epoch(patch: pytest.MonkeyPatch) -> None:
    """A partition accepts batches of any epoch."""
    judge = ProducerState.check

    def generous(self: ProducerState, header: BatchHeader) -> Any:
        entry = self.entries.get(header.producer_id)
        if entry is not None and header.producer_epoch < entry.producer_epoch:
            return None
        return judge(self, header)

    patch.setattr(ProducerState, "check", generous)


def verify_duplicates(patch: pytest.MonkeyPatch) -> None:
    """The verification guard of a duplicate batch is kept, and applies to the next batch."""
    patch.setattr(produce_verification, "is_past", lambda *args: False)


def respond_before_replication(patch: pytest.MonkeyPatch) -> None:
    """The coordinator's own log counts as committed."""

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
    """A version 1 producer keeps its epoch after an EndTxn without a response (KAFKA-17754)."""

    async def renew(self: TxnClient) -> None:
        self.must_bump = False

    patch.setattr(TxnClient, "renew", renew)


@pytest.mark.parametrize(
    ("mutate", "expected"),
    [
        (skip_verification, ["later transaction", "hanging"]),
        (keep_verifications_after_a_marker, ["later transaction", "hanging"]),
        (write_every_marker, ["later transaction", "aborted read", "torn"]),
        (accept_old_coordinators, ["later transaction"]),
        (accept_a_late_marker, ["later transaction"]),
        (decide_before_replication, ["stable offset went back"]),
        (respond_before_replication, ["lost transaction"]),
        (verify_duplicates, ["surprise"]),
        (accept_every_epoch, ["old epoch"]),
        (keep_the_epoch, ["later transaction"]),
    ],
)
def test_a_mutant_that_accepts_late_requests_is_caught(
    mutate: Mutation, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    assert_all_reported(mutate, late_requests, range(1, SEEDS_MAX + 1), expected)
