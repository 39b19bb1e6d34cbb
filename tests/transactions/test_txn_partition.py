"""The leader's part: guards for first writes, late markers, and words that old producers know."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.records.batch import SEQUENCE_MAX
from ottla.storage.producers.state import KeptBatch, ProducerEntry
from ottla.transactions.partition import (
    VerificationGuards,
    check_marker,
    is_past,
    needs_verification,
    refusal_of_write,
)


def entry_of(epoch: int, first_offset: int = -1, coordinator_epoch: int = 3) -> ProducerEntry:
    entry = ProducerEntry(5, epoch)
    entry.current_txn_first_offset = first_offset
    entry.coordinator_epoch = coordinator_epoch
    return entry


def test_the_first_batch_of_a_transaction_needs_a_ticket() -> None:
    assert needs_verification(None, 0)
    assert needs_verification(entry_of(1), 1)
    assert not needs_verification(entry_of(1, 50), 1)
    # Another epoch is another transaction.
    assert needs_verification(entry_of(1, 50), 2)


def test_batches_that_the_log_is_past_are_not_verified() -> None:
    """A late copy of it would have a guard, with a sequence below that of the next batch."""
    entry = entry_of(1)
    assert not is_past(None, 1, 0)
    assert not is_past(entry, 1, 0), "a marker alone has no sequence"
    entry.keep(KeptBatch(4, 9, 100, 105, 0))
    assert is_past(entry, 1, 4) and is_past(entry, 1, 0)
    assert not is_past(entry, 1, 10) and not is_past(entry, 1, 12)
    assert not is_past(entry, 2, 0), "another epoch starts at sequence 0"
    assert not is_past(entry, 1, -1)
    entry.keep(KeptBatch(SEQUENCE_MAX - 1, 1, 106, 109, 0))
    assert is_past(entry, 1, SEQUENCE_MAX - 1)
    assert not is_past(entry, 1, 2)


def test_a_ticket_is_good_until_a_marker_comes() -> None:
    guards = VerificationGuards()
    guard = guards.take(5, 1, 0, 0, adds=True)
    assert guard is not None
    assert guards.check(guard, None, 0) == ErrorCode.NONE
    assert guards.take(5, 1, 3, 0, adds=True) is guard
    guards.ended(5, 2)
    assert guards.check(guard, entry_of(1), 0) == ErrorCode.INVALID_TXN_STATE
    # A new one is not the old one.
    again = guards.take(5, 1, 0, 0, adds=True)
    assert again is not None
    assert guards.check(guard, entry_of(1), 0) == ErrorCode.INVALID_TXN_STATE
    assert guards.check(again, entry_of(1), 0) == ErrorCode.NONE


def test_an_epoch_unknown_to_the_coordinator_blocks_no_other() -> None:
    guards = VerificationGuards()
    for code, is_gone in (
        (ErrorCode.NOT_COORDINATOR, False),
        (ErrorCode.PRODUCER_FENCED, True),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, True),
    ):
        guard = guards.take(5, 9, 0, 0, adds=True)
        assert guard is not None
        guards.refused(guard, code)
        assert (guards.take(5, 1, 0, 0, adds=True) is not None) == is_gone
        guards.opened(5)


@pytest.mark.parametrize("adds", [True, False])
def test_the_marker_of_the_transaction_before_takes_no_ticket_away(adds: bool) -> None:
    """Where every transaction has an epoch: the marker has that of the transaction being verified."""
    guards = VerificationGuards()
    guard = guards.take(5, 2, 0, 0, adds=adds)
    assert guard is not None
    guards.ended(5, 2)
    wanted = ErrorCode.NONE if adds else ErrorCode.INVALID_TXN_STATE
    assert guards.check(guard, entry_of(2), 0) == wanted


def test_batches_of_one_transaction_are_written_in_their_order() -> None:
    guards = VerificationGuards()
    guard = guards.take(5, 1, 10, 0, adds=False)
    assert guards.take(5, 1, 4, 0, adds=False) is guard
    assert guard is not None
    assert guards.check(guard, None, 10) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert guards.check(guard, None, 4) == ErrorCode.NONE
    guards.opened(5)
    assert guards.check(guard, entry_of(1, 70), 10) == ErrorCode.NONE
    assert len(guards) == 0


def test_a_transaction_of_an_unknown_producer_begins_with_its_first_batch() -> None:
    guards = VerificationGuards()
    added = guards.take(5, 1, 3, 0, adds=True)
    verified = guards.take(6, 1, 3, 0, adds=False)
    assert added is not None and verified is not None
    assert guards.check(added, None, 3) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert guards.check(added, entry_of(1), 3) == ErrorCode.NONE
    # Older clients continue where the state of their producer has expired.
    assert guards.check(verified, None, 3) == ErrorCode.NONE


def test_a_later_epoch_takes_the_ticket_of_an_earlier_one() -> None:
    guards = VerificationGuards()
    old = guards.take(5, 1, 0, 0, adds=True)
    new = guards.take(5, 2, 0, 0, adds=True)
    assert guards.take(5, 1, 0, 0, adds=True) is None
    assert old is not None and new is not None
    assert guards.check(old, None, 0) == ErrorCode.INVALID_TXN_STATE
    assert guards.check(new, None, 0) == ErrorCode.NONE


def test_abandoned_guards_expire() -> None:
    guards = VerificationGuards()
    guards.take(5, 1, 0, 100, adds=True)
    guards.take(6, 1, 0, 150, adds=True)
    guards.expire(199, 100)
    assert len(guards) == 2
    guards.expire(200, 100)
    assert len(guards) == 1


@pytest.mark.parametrize(
    ("epoch", "is_open", "coordinator_epoch", "marker_epoch", "version", "expected"),
    [
        (4, True, 3, 3, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (4, True, 3, 4, 0, ErrorCode.NONE),
        (4, True, 3, 4, 1, ErrorCode.NONE),
        (4, True, 3, 4, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (4, False, 3, 4, 2, ErrorCode.NONE),
        (4, False, 3, 3, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (4, True, 3, 5, 2, ErrorCode.NONE),
        (4, True, 2, 5, 2, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (4, True, 4, 5, 0, ErrorCode.NONE),
    ],
)
def test_late_markers_are_refused(
    epoch: int, is_open: bool, coordinator_epoch: int, marker_epoch: int, version: int, expected: ErrorCode
) -> None:
    entry = entry_of(epoch, 20 if is_open else -1)
    assert check_marker(entry, marker_epoch, coordinator_epoch, version) == expected
    assert check_marker(None, marker_epoch, coordinator_epoch, version) == ErrorCode.NONE


def test_producers_get_error_codes_that_their_version_knows() -> None:
    code = ErrorCode

    def client_error(of: ErrorCode, adds: bool = False, knows_abortable: bool = False) -> ErrorCode:
        return refusal_of_write(of, adds=adds, knows_abortable=knows_abortable)

    assert client_error(code.CONCURRENT_TRANSACTIONS) == code.NOT_ENOUGH_REPLICAS
    assert client_error(code.CONCURRENT_TRANSACTIONS, adds=True) == code.CONCURRENT_TRANSACTIONS
    assert client_error(code.NOT_COORDINATOR, adds=True) == code.NOT_ENOUGH_REPLICAS
    assert client_error(code.PRODUCER_FENCED) == code.INVALID_PRODUCER_EPOCH
    assert client_error(code.TRANSACTION_ABORTABLE) == code.INVALID_TXN_STATE
    assert client_error(code.TRANSACTION_ABORTABLE, knows_abortable=True) == code.TRANSACTION_ABORTABLE
    assert client_error(code.INVALID_PRODUCER_ID_MAPPING) == code.INVALID_PRODUCER_ID_MAPPING
