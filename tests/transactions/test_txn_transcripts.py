"""Transactions as transcripts of events and results: records in parentheses, markers, then the response."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.transactions.admin import unknown_states
from tests.support.transactions.harness import ID, V1, V2, Harness, state_of


def test_version_1_commits_and_keeps_the_epoch() -> None:
    harness = Harness()
    pair = harness.init()
    harness.add(pair, 0, 1)
    harness.add(pair, 1)
    harness.offsets(pair)
    harness.end(pair, True)
    harness.add(pair, 0)
    harness.end(pair, True)
    harness.written()
    harness.end(pair, True)
    harness.add(pair, 2)
    assert harness.transcript() == [
        "(Empty 100/0)",
        "init: 100/0",
        "(Ongoing 100/0: x-[0, 1])",
        "add: NONE",
        "add: NONE",
        "(Ongoing 100/0: x-[0, 1] __consumer_offsets-[3])",
        "offsets: ok",
        "(PrepareCommit 100/0: x-[0, 1] __consumer_offsets-[3])",
        "-> commit 100/0 v0 in x-0 x-1 __consumer_offsets-3",
        "commit: ok",
        "add: CONCURRENT_TRANSACTIONS",
        "commit: CONCURRENT_TRANSACTIONS",
        "(CompleteCommit 100/0)",
        "commit: ok",
        "(Ongoing 100/0: x-[2])",
        "add: NONE",
    ]


def test_second_version_gives_an_epoch_with_every_end() -> None:
    harness = Harness()
    pair = harness.init()
    harness.add(pair, 0, version=5)
    after = harness.end(pair, True, V2)
    # The answer got lost.
    assert harness.end(pair, True, V2) == (-1, -1)
    harness.add(after, 1, version=5)
    harness.add(pair, 1, version=5)
    harness.written()
    assert harness.end(pair, True, V2) == after
    harness.end(pair, False, V2)
    harness.add(after, 1, version=5)
    harness.end(pair, True, V2)
    harness.end(after, False, V2)
    assert harness.transcript() == [
        "(Empty 100/0)",
        "init: 100/0",
        "(Ongoing 100/0: x-[0])",
        "add: NONE",
        "(PrepareCommit 100/1: x-[0])",
        "-> commit 100/1 v2 in x-0",
        "commit: ok, next 100/1",
        "commit: CONCURRENT_TRANSACTIONS",
        "add: CONCURRENT_TRANSACTIONS",
        "add: PRODUCER_FENCED",
        "(CompleteCommit 100/1)",
        "commit: ok, next 100/1",
        "abort: INVALID_TXN_STATE",
        "(Ongoing 100/1: x-[1])",
        "add: NONE",
        "commit: PRODUCER_FENCED",
        "(PrepareAbort 100/2: x-[1])",
        "-> abort 100/2 v2 in x-1",
        "abort: ok, next 100/2",
    ]


def test_version_2_may_abort_an_empty_transaction() -> None:
    harness = Harness()
    pair = harness.init()
    harness.end(pair, True, V2)
    pair = harness.end(pair, False, V2)
    again = harness.end(pair, False, V2)
    # A retry of the last succeeds, the previous one is fenced.
    assert harness.end(pair, False, V2) == again
    harness.end((100, 0), False, V2)
    harness.end(again, True, V2)
    harness.add(again, 0, version=5)
    after = harness.end(again, True, V2)
    # Not before the markers are there.
    harness.end(after, False, V2)
    harness.end(after, True, V2)
    harness.written()
    harness.end(after, False, V2)
    assert harness.transcript() == [
        "(Empty 100/0)",
        "init: 100/0",
        "commit: INVALID_TXN_STATE",
        "(CompleteAbort 100/1)",
        "abort: ok, next 100/1",
        "(CompleteAbort 100/2)",
        "abort: ok, next 100/2",
        "abort: ok, next 100/2",
        "abort: PRODUCER_FENCED",
        "commit: INVALID_TXN_STATE",
        "(Ongoing 100/2: x-[0])",
        "add: NONE",
        "(PrepareCommit 100/3: x-[0])",
        "-> commit 100/3 v2 in x-0",
        "commit: ok, next 100/3",
        "abort: CONCURRENT_TRANSACTIONS",
        "commit: INVALID_TXN_STATE",
        "(CompleteCommit 100/3)",
        "(CompleteAbort 100/4)",
        "abort: ok, next 100/4",
    ]


def test_ends_of_the_first_version_that_do_not_fit() -> None:
    harness = Harness()
    harness.end((1, 0), True)
    pair = harness.init()
    harness.end(pair, True)
    harness.end(pair, False)
    harness.add(pair, 0)
    harness.end((pair[0], 1), True)
    harness.end((pair[0], 1), True, version=1)
    harness.end((99, 0), True)
    harness.transcript()
    harness.end(pair, False)
    harness.end(pair, True)
    harness.written()
    harness.end(pair, True)
    harness.end(pair, False)
    assert harness.transcript() == [
        "(PrepareAbort 100/0: x-[0])",
        "-> abort 100/0 v0 in x-0",
        "abort: ok",
        "commit: INVALID_TXN_STATE",
        "(CompleteAbort 100/0)",
        "commit: INVALID_TXN_STATE",
        "abort: ok",
    ]


def test_errors_of_an_end_by_version() -> None:
    harness = Harness()
    harness.end((1, 0), True)
    pair = harness.init()
    harness.add(pair, 0)
    harness.transcript()
    harness.end((pair[0], 1), True)
    harness.end((pair[0], 1), True, version=1)
    harness.end((99, 0), True)
    harness.end((99, 0), True, V2)
    harness.end((pair[0], 1), True, V2)
    assert harness.transcript() == [
        "commit: PRODUCER_FENCED",
        "commit: INVALID_PRODUCER_EPOCH",
        "commit: INVALID_PRODUCER_ID_MAPPING",
        "commit: INVALID_PRODUCER_ID_MAPPING",
        "commit: PRODUCER_FENCED",
    ]


def test_a_version_1_client_cannot_commit_a_transaction_ended_by_version_2() -> None:
    harness = Harness()
    pair = harness.init()
    harness.add(pair, 0, version=5)
    pair = harness.end(pair, True, V2)
    harness.written()
    harness.transcript()
    harness.end(pair, True, V1)
    assert harness.transcript() == ["commit: INVALID_TXN_STATE"]


def test_a_new_instance_aborts_the_open_transaction_and_fences_the_old_one() -> None:
    harness = Harness()
    old = harness.init()
    harness.add(old, 0)
    harness.transcript()
    harness.init()
    harness.init()
    harness.end(old, True)
    harness.end(old, True, V2)
    harness.end(old, False, V2)
    harness.add(old, 1)
    harness.add(old, 1, version=1)
    harness.offsets(old)
    harness.offsets(old, version=1)
    harness.written()
    harness.end(old, False, V2)
    new = harness.init()
    harness.init(old)
    harness.init(old, version=3)
    harness.add(new, 0)
    # The old one can neither continue nor disturb.
    harness.init(old)
    assert harness.transcript() == [
        "(PrepareAbort 100/1: x-[0])",
        "-> abort 100/1 v1 in x-0",
        "init: CONCURRENT_TRANSACTIONS",
        "init: CONCURRENT_TRANSACTIONS",
        "commit: PRODUCER_FENCED",
        "commit: PRODUCER_FENCED",
        "abort: PRODUCER_FENCED",
        "add: PRODUCER_FENCED",
        "add: INVALID_PRODUCER_EPOCH",
        "offsets: PRODUCER_FENCED",
        "offsets: INVALID_PRODUCER_EPOCH",
        "(CompleteAbort 100/1)",
        "abort: PRODUCER_FENCED",
        "(Empty 100/2)",
        "init: 100/2",
        "init: PRODUCER_FENCED",
        "init: INVALID_PRODUCER_EPOCH",
        "(Ongoing 100/2: x-[0])",
        "add: NONE",
        "init: PRODUCER_FENCED",
    ]


@pytest.mark.parametrize("fail_over", [False, True])
def test_a_client_that_names_its_epoch_continues_after_a_lost_response(fail_over: bool) -> None:
    harness = Harness()
    pair = harness.init()
    after = harness.init(pair)
    assert after == (100, 1)
    if fail_over:
        harness.reload()
    assert harness.init(pair) == after
    if fail_over:
        harness.reload()
    assert harness.init(pair) == after
    assert harness.init(after) == (100, 2)
    # A new instance has come: none of the others can continue.
    assert harness.init() == (100, 3)
    if fail_over:
        harness.reload()
    for stale in (pair, after, (100, 2), (77, 3)):
        harness.transcript()
        harness.init(stale)
        assert harness.transcript() == ["init: PRODUCER_FENCED"]


def test_a_client_that_missed_the_end_may_name_its_previous_epoch() -> None:
    harness = Harness()
    pair = harness.init()
    harness.add(pair, 0, version=5)
    after = harness.end(pair, False, V2)
    harness.transcript()
    harness.init(pair)
    harness.written()
    assert harness.init(pair) == after
    assert harness.transcript() == [
        "init: CONCURRENT_TRANSACTIONS",
        "(CompleteAbort 100/1)",
        "(Empty 100/1)",
        "init: 100/1",
    ]


def test_requests_that_make_no_sense() -> None:
    harness = Harness()
    harness.init(name="")
    harness.init((5, -1))
    harness.init((-1, 5))
    harness.init(timeout_ms=0)
    harness.init(timeout_ms=900_001)
    harness.init(version=6, enable2_pc=True)
    harness.init(version=6, keep_prepared_txn=True)
    harness.add((1, 0), 0)
    harness.add((1, 0), 0, name="")
    harness.offsets((1, 0))
    harness.end((1, 0), True)
    assert harness.transcript() == [
        "init: INVALID_REQUEST",
        "init: INVALID_REQUEST",
        "init: INVALID_REQUEST",
        "init: INVALID_TRANSACTION_TIMEOUT",
        "init: INVALID_TRANSACTION_TIMEOUT",
        "init: TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "init: TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "add: INVALID_PRODUCER_ID_MAPPING",
        "add: INVALID_REQUEST",
        "offsets: INVALID_PRODUCER_ID_MAPPING",
        "commit: INVALID_PRODUCER_ID_MAPPING",
    ]
    assert not harness.log


def test_partitions_that_are_refused_keep_the_others_out() -> None:
    harness = Harness()
    pair = harness.init()
    harness.transcript()
    harness.add(pair, 0, 1, refused={("x", 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    harness.add(pair)
    assert harness.transcript()[0] == "add: OPERATION_NOT_ATTEMPTED UNKNOWN_TOPIC_OR_PARTITION"
    assert not harness.transaction.partitions


def test_leaders_verify_that_a_partition_was_added() -> None:
    harness = Harness()
    pair = harness.init()
    harness.add(pair, 0)
    harness.transcript()
    harness.add(pair, 0, 1, version=5, verify_only=True)
    harness.add((pair[0], 1), 0, version=5, verify_only=True)
    harness.add((7, 0), 0, version=5, verify_only=True)
    harness.end(pair, True)
    harness.add(pair, 0, version=5, verify_only=True)
    harness.written()
    harness.add(pair, 0, version=5, verify_only=True)
    assert harness.transcript() == [
        "verify: NONE TRANSACTION_ABORTABLE",
        "verify: PRODUCER_FENCED",
        "verify: INVALID_PRODUCER_ID_MAPPING",
        "(PrepareCommit 100/0: x-[0])",
        "-> commit 100/0 v0 in x-0",
        "commit: ok",
        "verify: CONCURRENT_TRANSACTIONS",
        "(CompleteCommit 100/0)",
        "verify: TRANSACTION_ABORTABLE",
    ]


# Epochs that run out.


def test_init_takes_a_new_id_when_the_epochs_are_used_up() -> None:
    harness = Harness()
    harness.init()
    last = harness.set_epoch(32766)
    harness.transcript()
    assert harness.init(last) == (101, 0)
    assert harness.init(last) == (101, 0)
    harness.reload()
    assert harness.init(last) == (101, 0)
    harness.init((100, 32765))
    assert harness.transcript()[-1] == "init: PRODUCER_FENCED"
    harness.set_epoch(32766)
    assert harness.init() == (102, 0)
    harness.init((101, 32766))
    assert harness.transcript()[-1] == "init: PRODUCER_FENCED"


def test_an_end_takes_a_new_id_when_the_epochs_are_used_up() -> None:
    harness = Harness()
    harness.init()
    pair = harness.set_epoch(32766)
    harness.add(pair, 0, version=5)
    harness.transcript()
    after = harness.end(pair, True, V2)
    harness.end(pair, True, V2)
    harness.add(after, 1, version=5)
    harness.reload()
    harness.end(pair, True, V2)
    harness.written()
    assert harness.end(pair, True, V2) == after
    assert harness.init(pair) == after
    assert harness.transcript() == [
        "(PrepareCommit 100/32767, next 101/-1: x-[0])",
        "-> commit 100/32767 v2 in x-0",
        "commit: ok, next 101/0",
        "commit: CONCURRENT_TRANSACTIONS",
        "add: CONCURRENT_TRANSACTIONS",
        "-> commit 100/32767 v2 in x-0",
        "commit: CONCURRENT_TRANSACTIONS",
        "(CompleteCommit 101/0)",
        "commit: ok, next 101/0",
        "(Empty 101/0)",
        "init: 101/0",
    ]


def test_the_last_epoch_is_for_fencing_alone() -> None:
    harness = Harness()
    harness.init()
    pair = harness.set_epoch(32766)
    harness.add(pair, 0)
    harness.init()
    harness.written()
    assert (harness.transaction.producer_id, harness.transaction.producer_epoch) == (100, 32767)
    # It belongs to no client, even if one guesses it.
    harness.transcript()
    for guess in ((100, 32767), pair):
        harness.add(guess, 0)
        harness.end(guess, False, V2)
        harness.end(guess, False, V1)
    assert (
        harness.transcript()
        == [
            "add: PRODUCER_FENCED",
            "abort: PRODUCER_FENCED",
            "abort: PRODUCER_FENCED",
        ]
        * 2
    )
    harness.init(pair)
    assert harness.init() == (101, 0)
    assert harness.transcript() == ["init: PRODUCER_FENCED", "(Empty 101/0)", "init: 101/0"]


# Time.


@pytest.mark.parametrize("fail_over", [False, True])
def test_a_transaction_that_takes_too_long_is_aborted_and_its_client_fenced(fail_over: bool) -> None:
    harness = Harness()
    pair = harness.init(timeout_ms=10_000)
    harness.wait(5_000)
    harness.add(pair, 0)
    harness.wait(8_000)
    harness.add(pair, 1)
    if fail_over:
        harness.reload()
    harness.transcript()
    harness.wait(1_999)
    assert harness.transcript() == []
    harness.wait(1)
    harness.end(pair, True)
    harness.written()
    harness.add(pair, 1)
    assert harness.transcript() == [
        "(PrepareAbort 100/1: x-[0, 1])",
        "-> abort 100/1 v1 in x-0 x-1",
        "commit: PRODUCER_FENCED",
        "(CompleteAbort 100/1)",
        "add: PRODUCER_FENCED",
    ]


def test_the_time_of_a_transaction_begins_with_it() -> None:
    harness = Harness()
    pair = harness.init(timeout_ms=10_000)
    for _ in range(30):
        harness.add(pair, 0, version=5)
        harness.wait(9_000)
        pair = harness.end(pair, True, V2)
        harness.written()
    harness.wait(60_000)
    assert harness.transaction.producer_epoch == 30
    assert len(harness.shard.context.deadlines) <= 1


def test_unused_transactional_ids_expire() -> None:
    harness = Harness(transactional_id_expiration_ms="600000")
    harness.init(name="idle")
    for index in range(3000):
        harness.init(name=f"idle{index}")
    pair = harness.init(timeout_ms=900_000)
    harness.wait(3_599_000)
    harness.init(name="used")
    harness.add(pair, 0)
    harness.transcript()
    harness.wait(2_000)
    assert {*harness.transcript()} == {"(idle is gone)", *(f"(idle{index} is gone)" for index in range(3000))}
    assert [*harness.shard.context.transactions] == [ID, "used"]
    assert state_of(harness.replayed()) == state_of(harness.shard)
    # The id starts over, and its previous client is fenced by the producer id.
    harness.add((100, 0), 0, name="idle")
    harness.init(name="idle")
    harness.add((100, 0), 0, name="idle")
    assert harness.transcript() == [
        "add: INVALID_PRODUCER_ID_MAPPING",
        "(Empty 3103/0)",
        "init: 3103/0",
        "add: INVALID_PRODUCER_ID_MAPPING",
    ]


# Fail-over.


def test_a_new_coordinator_sends_the_markers_again() -> None:
    harness = Harness()
    pair = harness.init()
    harness.add(pair, 0, 1)
    harness.end(pair, True)
    (old,) = harness.markers
    harness.transcript()
    harness.reload()
    (new,) = harness.markers
    assert (old.coordinator_epoch, new.coordinator_epoch) == (7, 8)
    # A response to the previous coordinator does not count.
    assert not harness.shard.markers_written(old, harness.now_ms).records
    harness.written()
    assert not harness.shard.markers_written(new, harness.now_ms).records
    assert harness.transcript() == ["-> commit 100/0 v0 in x-0 x-1", "(CompleteCommit 100/0)"]


def test_records_of_others_are_passed_over_and_a_dead_id_is_gone() -> None:
    harness = Harness()
    pair = harness.init()
    harness.shard.apply_bytes(b"\x00\x63what is this", b"\x00\x00", 0)
    changed = harness.transaction.copy()
    changed.state = 6
    harness.shard.apply(changed.key(), changed.value(), 0)
    harness.transcript()
    harness.add(pair, 0)
    assert harness.transcript() == ["add: INVALID_PRODUCER_ID_MAPPING"]


# Looking.


def test_transactions_are_described_and_listed() -> None:
    harness = Harness()
    pair = harness.init()
    harness.add(pair, 0, 1)
    harness.init(name="u")
    harness.wait(500)
    found = harness.shard.describe_transaction(ID)
    assert (found.error_code, found.transaction_state, found.producer_id) == (0, "Ongoing", 100)
    assert (found.transaction_start_time_ms, found.transaction_timeout_ms) == (harness.now_ms - 500, 60_000)
    assert [(each.topic, each.partitions) for each in found.topics] == [("x", [0, 1])]
    assert harness.shard.describe_transaction("v").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert harness.shard.describe_transaction("").error_code == ErrorCode.INVALID_REQUEST
    harness.init((101, 0), name="u")
    assert harness.shard.describe_transaction("u").transaction_start_time_ms == -1

    def listed(**filters: object) -> list[str]:
        found = harness.shard.list_transactions(harness.now_ms, **filters)  # type: ignore[arg-type]
        return [each.transactional_id for each in found]

    assert listed() == ["t", "u"]
    assert listed(states=["Empty"]) == ["u"]
    assert listed(states=["Empty", "Ongoing"]) == ["t", "u"]
    assert listed(producer_ids=[100]) == ["t"]
    # A transactional id that has not begun a transaction has no duration to filter by.
    assert listed(longer_than_ms=499) == ["t", "u"]
    assert listed(longer_than_ms=500) == ["u"]
    assert listed(longer_than_ms=0, states=["Empty"]) == ["u"]
    assert listed(matches=lambda name: name == "u") == ["u"]
    assert unknown_states(["Empty", "Odd", "PrepareEpochFence"]) == ["Odd"]


def test_a_completed_transaction_is_listed_by_when_it_started() -> None:
    harness = Harness()
    pair = harness.init()
    harness.add(pair, 0)
    harness.end(pair, True)
    harness.written()
    harness.wait(500)

    def listed(longer_than_ms: int) -> list[tuple[str, str]]:
        found = harness.shard.list_transactions(harness.now_ms, longer_than_ms=longer_than_ms)
        return [(each.transactional_id, each.transaction_state) for each in found]

    assert listed(499) == [("t", "CompleteCommit")]
    assert listed(500) == []
