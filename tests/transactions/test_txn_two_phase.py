"""Two-phase commit: transactions that are kept for the client's next instance, and wait for its word."""

from __future__ import annotations

import pytest

from tests.support.transactions.harness import V1, V2, Harness


def two_phase_harness() -> Harness:
    return Harness(transaction_two_phase_commit_enable="true")


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("committed", [False, True])
def test_a_prepared_transaction_waits_for_the_word_of_its_client(version: int, committed: bool) -> None:
    harness = two_phase_harness()
    pair = harness.init(version=6, timeout_ms=10, enable2_pc=True)
    harness.add(pair, 0, version=5)
    harness.wait(10_000_000)
    harness.reload()
    harness.transcript()
    kept = harness.init(version=6, enable2_pc=True, keep_prepared_txn=True)
    kept_again = harness.init(version=6, enable2_pc=True, keep_prepared_txn=True)
    harness.reload()
    assert (kept, kept_again) == ((100, 2), (100, 3))
    for fenced in (pair, kept):
        harness.end(fenced, committed, version)
        harness.add(fenced, 1)
    harness.add(kept_again, 1)
    harness.add(kept_again, 0, version=5, verify_only=True)
    result = "commit" if committed else "abort"
    assert harness.transcript() == [
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
    after = harness.end(kept_again, committed, version)
    harness.reload()
    harness.written()
    harness.end(kept_again, committed, version)
    epoch, number = (4, 2) if version == V2 else (3, 0)
    state = result.capitalize()
    suffix = f", next 100/{epoch}" if version == V2 else ""
    assert harness.transcript() == [
        f"(Prepare{state} 100/1, next 100/{epoch}: x-[0])",
        f"-> {result} 100/1 v{number} in x-0",
        f"{result}: ok{suffix}",
        f"-> {result} 100/1 v{number} in x-0",
        f"(Complete{state} 100/{epoch})",
        f"{result}: ok{suffix}",
    ]
    pair = after if version == V2 else kept_again
    harness.add(pair, 5, version=5)
    assert harness.transcript() == [f"(Ongoing 100/{epoch}: x-[5])", "add: NONE"]


def test_without_a_transaction_there_is_nothing_to_keep() -> None:
    harness = two_phase_harness()
    harness.init(version=6, enable2_pc=True, keep_prepared_txn=True)
    pair = harness.init(version=6, enable2_pc=True, keep_prepared_txn=True)
    assert harness.transcript() == ["(Empty 100/0)", "init: 100/0", "(Empty 100/1)", "init: 100/1"]
    harness.add(pair, 0)
    harness.end(pair, True)
    harness.init(version=6, enable2_pc=True, keep_prepared_txn=True)
    assert harness.transcript()[-1] == "init: CONCURRENT_TRANSACTIONS"


def test_a_kept_transaction_is_aborted_by_an_instance_that_does_not_want_it() -> None:
    harness = two_phase_harness()
    pair = harness.init(version=6, enable2_pc=True)
    harness.add(pair, 0)
    kept = harness.init(version=6, enable2_pc=True, keep_prepared_txn=True)
    harness.transcript()
    harness.init(version=6, enable2_pc=True)
    harness.end(kept, True, V2)
    harness.written()
    harness.end(kept, False, V2)
    harness.init(version=6, enable2_pc=True)
    assert harness.transcript() == [
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
    harness = two_phase_harness()
    harness.init(version=6, enable2_pc=True)
    pair = harness.set_epoch(epoch)
    harness.add(pair, 0, version=5)
    kept = harness.init(version=6, enable2_pc=True, keep_prepared_txn=True)
    assert kept == ((100, 32766) if epoch == 32764 else (101, 0))
    after = harness.end(kept, True, V2)
    assert after == ((101, 0) if epoch == 32764 else (101, 1))
    (markers,) = harness.markers
    assert (markers.producer_id, markers.producer_epoch) == (100, epoch + 1)
    harness.reload()
    harness.written()
    assert harness.end(kept, True, V2) == after
    assert harness.init(kept) == after


def test_a_kept_transaction_without_two_phases_has_its_time_out() -> None:
    harness = two_phase_harness()
    pair = harness.init(timeout_ms=10_000)
    harness.add(pair, 0)
    kept = harness.init(version=6, timeout_ms=20_000, keep_prepared_txn=True)
    harness.wait(19_000)
    harness.transcript()
    harness.wait(1_000)
    harness.end(kept, True, V2)
    assert harness.transcript() == [
        "(PrepareAbort 100/1, next 100/3: x-[0])",
        "-> abort 100/1 v1 in x-0",
        "commit: PRODUCER_FENCED",
    ]
