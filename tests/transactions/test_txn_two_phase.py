"""Two-phase commit: transactions that are kept for the client's next instance, and wait for its word."""

from __future__ import annotations

import pytest

from tests.support.transactions.desk import V1, V2, Desk


def two_phase_desk() -> Desk:
    return Desk(transaction_two_phase_commit_enable="true")


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("committed", [False, True])
def test_a_prepared_transaction_waits_for_the_word_of_its_client(version: int, committed: bool) -> None:
    desk = two_phase_desk()
    pair = desk.init(version=6, timeout_ms=10, enable2_pc=True)
    desk.add(pair, 0, version=5)
    desk.wait(10_000_000)
    desk.reload()
    desk.transcript()
    kept = desk.init(version=6, enable2_pc=True, keep_prepared_txn=True)
    kept_again = desk.init(version=6, enable2_pc=True, keep_prepared_txn=True)
    desk.reload()
    assert (kept, kept_again) == ((100, 2), (100, 3))
    for fenced in (pair, kept):
        desk.end(fenced, committed, version)
        desk.add(fenced, 1)
    desk.add(kept_again, 1)
    desk.add(kept_again, 0, version=5, verify_only=True)
    result = "commit" if committed else "abort"
    assert desk.transcript() == [
        "(Ongoing 100/0, next 100/2: x-[0])",
        "init: 100/2, ongoing 100/0",
        "(Ongoing 100/0, next 100/3: x-[0])",
        "init: 100/3, ongoing 100/0",
        f"{result}: PRODUCER_FENCED",
        "add: PRODUCER_FENCED",
        f"{result}: PRODUCER_FENCED",
        "add: PRODUCER_FENCED",
        "add: INVALID_TXN_STATE",
        "verify: INVALID_TXN_STATE",
    ]
    after = desk.end(kept_again, committed, version)
    desk.reload()
    desk.written()
    desk.end(kept_again, committed, version)
    epoch, number = (4, 2) if version == V2 else (3, 0)
    state = result.capitalize()
    suffix = f", next 100/{epoch}" if version == V2 else ""
    assert desk.transcript() == [
        f"(Prepare{state} 100/1, next 100/{epoch}: x-[0])",
        f"-> {result} 100/1 v{number} in x-0",
        f"{result}: ok{suffix}",
        f"-> {result} 100/1 v{number} in x-0",
        f"(Complete{state} 100/{epoch})",
        f"{result}: ok{suffix}",
    ]
    pair = after if version == V2 else kept_again
    desk.add(pair, 5, version=5)
    assert desk.transcript() == [f"(Ongoing 100/{epoch}: x-[5])", "add: NONE"]


def test_without_a_transaction_there_is_nothing_to_keep() -> None:
    desk = two_phase_desk()
    desk.init(version=6, enable2_pc=True, keep_prepared_txn=True)
    pair = desk.init(version=6, enable2_pc=True, keep_prepared_txn=True)
    assert desk.transcript() == ["(Empty 100/0)", "init: 100/0", "(Empty 100/1)", "init: 100/1"]
    desk.add(pair, 0)
    desk.end(pair, True)
    desk.init(version=6, enable2_pc=True, keep_prepared_txn=True)
    assert desk.transcript()[-1] == "init: CONCURRENT_TRANSACTIONS"


def test_a_kept_transaction_is_aborted_by_an_instance_that_does_not_want_it() -> None:
    desk = two_phase_desk()
    pair = desk.init(version=6, enable2_pc=True)
    desk.add(pair, 0)
    kept = desk.init(version=6, enable2_pc=True, keep_prepared_txn=True)
    desk.transcript()
    desk.init(version=6, enable2_pc=True)
    desk.end(kept, True, V2)
    desk.written()
    desk.end(kept, False, V2)
    desk.init(version=6, enable2_pc=True)
    assert desk.transcript() == [
        "(PrepareAbort 100/1, next 100/3: x-[0])",
        "-> abort 100/1 v1 in x-0",
        "init: CONCURRENT_TRANSACTIONS",
        "commit: PRODUCER_FENCED",
        "(CompleteAbort 100/3)",
        "abort: PRODUCER_FENCED",
        "(Empty 100/4)",
        "init: 100/4",
    ]


@pytest.mark.parametrize("epoch", [32764, 32765, 32766])
def test_keeping_leaves_room_for_the_markers_at_the_end_of_the_epochs(epoch: int) -> None:
    desk = two_phase_desk()
    desk.init(version=6, enable2_pc=True)
    pair = desk.set_epoch(epoch)
    desk.add(pair, 0, version=5)
    kept = desk.init(version=6, enable2_pc=True, keep_prepared_txn=True)
    assert kept == ((100, 32766) if epoch == 32764 else (101, 0))
    after = desk.end(kept, True, V2)
    assert after == ((101, 0) if epoch == 32764 else (101, 1))
    (markers,) = desk.markers
    assert (markers.producer_id, markers.producer_epoch) == (100, epoch + 1)
    desk.reload()
    desk.written()
    assert desk.end(kept, True, V2) == after
    assert desk.init(kept) == after


def test_a_kept_transaction_without_two_phases_has_its_time_out() -> None:
    desk = two_phase_desk()
    pair = desk.init(timeout_ms=10_000)
    desk.add(pair, 0)
    kept = desk.init(version=6, timeout_ms=20_000, keep_prepared_txn=True)
    desk.wait(19_000)
    desk.transcript()
    desk.wait(1_000)
    desk.end(kept, True, V2)
    assert desk.transcript() == [
        "(PrepareAbort 100/1, next 100/3: x-[0])",
        "-> abort 100/1 v1 in x-0",
        "commit: PRODUCER_FENCED",
    ]
