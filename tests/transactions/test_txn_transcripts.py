"""Transactions told as events and what comes of them: records in parentheses, markers, then the answer."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.transactions.admin import unknown_states
from tests.support.transactions.desk import ID, V1, V2, Desk, state_of


def test_first_version_commits_and_goes_on_with_the_same_epoch() -> None:
    desk = Desk()
    pair = desk.init()
    desk.add(pair, 0, 1)
    desk.add(pair, 1)
    desk.offsets(pair)
    desk.end(pair, True)
    desk.add(pair, 0)
    desk.end(pair, True)
    desk.written()
    desk.end(pair, True)
    desk.add(pair, 2)
    assert desk.transcript() == [
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
    desk = Desk()
    pair = desk.init()
    desk.add(pair, 0, version=5)
    after = desk.end(pair, True, V2)
    # The answer got lost.
    assert desk.end(pair, True, V2) == (-1, -1)
    desk.add(after, 1, version=5)
    desk.add(pair, 1, version=5)
    desk.written()
    assert desk.end(pair, True, V2) == after
    desk.end(pair, False, V2)
    desk.add(after, 1, version=5)
    desk.end(pair, True, V2)
    desk.end(after, False, V2)
    assert desk.transcript() == [
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


def test_second_version_may_abort_what_nothing_was_written_in() -> None:
    desk = Desk()
    pair = desk.init()
    desk.end(pair, True, V2)
    pair = desk.end(pair, False, V2)
    again = desk.end(pair, False, V2)
    # A retry of the last, the one before it is fenced.
    assert desk.end(pair, False, V2) == again
    desk.end((100, 0), False, V2)
    desk.end(again, True, V2)
    desk.add(again, 0, version=5)
    after = desk.end(again, True, V2)
    # Not before the markers are there.
    desk.end(after, False, V2)
    desk.end(after, True, V2)
    desk.written()
    desk.end(after, False, V2)
    assert desk.transcript() == [
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
    desk = Desk()
    desk.end((1, 0), True)
    pair = desk.init()
    desk.end(pair, True)
    desk.end(pair, False)
    desk.add(pair, 0)
    desk.end((pair[0], 1), True)
    desk.end((pair[0], 1), True, version=1)
    desk.end((99, 0), True)
    desk.transcript()
    desk.end(pair, False)
    desk.end(pair, True)
    desk.written()
    desk.end(pair, True)
    desk.end(pair, False)
    assert desk.transcript() == [
        "(PrepareAbort 100/0: x-[0])",
        "-> abort 100/0 v0 in x-0",
        "abort: ok",
        "commit: INVALID_TXN_STATE",
        "(CompleteAbort 100/0)",
        "commit: INVALID_TXN_STATE",
        "abort: ok",
    ]


def test_errors_of_an_end_by_version() -> None:
    desk = Desk()
    desk.end((1, 0), True)
    pair = desk.init()
    desk.add(pair, 0)
    desk.transcript()
    desk.end((pair[0], 1), True)
    desk.end((pair[0], 1), True, version=1)
    desk.end((99, 0), True)
    desk.end((99, 0), True, V2)
    desk.end((pair[0], 1), True, V2)
    assert desk.transcript() == [
        "commit: PRODUCER_FENCED",
        "commit: INVALID_PRODUCER_EPOCH",
        "commit: INVALID_PRODUCER_ID_MAPPING",
        "commit: INVALID_PRODUCER_ID_MAPPING",
        "commit: PRODUCER_FENCED",
    ]


def test_a_client_of_the_first_version_cannot_commit_what_ended_in_the_second() -> None:
    desk = Desk()
    pair = desk.init()
    desk.add(pair, 0, version=5)
    pair = desk.end(pair, True, V2)
    desk.written()
    desk.transcript()
    desk.end(pair, True, V1)
    assert desk.transcript() == ["commit: INVALID_TXN_STATE"]


def test_a_new_instance_aborts_what_the_old_one_left_and_fences_it() -> None:
    desk = Desk()
    old = desk.init()
    desk.add(old, 0)
    desk.transcript()
    desk.init()
    desk.init()
    desk.end(old, True)
    desk.end(old, True, V2)
    desk.end(old, False, V2)
    desk.add(old, 1)
    desk.add(old, 1, version=1)
    desk.offsets(old)
    desk.offsets(old, version=1)
    desk.written()
    desk.end(old, False, V2)
    new = desk.init()
    desk.init(old)
    desk.init(old, version=3)
    desk.add(new, 0)
    # The old one neither goes on nor disturbs.
    desk.init(old)
    assert desk.transcript() == [
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
def test_who_names_its_epoch_goes_on_also_if_the_answer_got_lost(fail_over: bool) -> None:
    desk = Desk()
    pair = desk.init()
    after = desk.init(pair)
    assert after == (100, 1)
    if fail_over:
        desk.reload()
    assert desk.init(pair) == after
    if fail_over:
        desk.reload()
    assert desk.init(pair) == after
    assert desk.init(after) == (100, 2)
    # A new instance has come: none of the others goes on.
    assert desk.init() == (100, 3)
    if fail_over:
        desk.reload()
    for stale in (pair, after, (100, 2), (77, 3)):
        desk.transcript()
        desk.init(stale)
        assert desk.transcript() == ["init: PRODUCER_FENCED"]


def test_who_missed_the_end_of_its_transaction_may_name_the_epoch_it_had() -> None:
    desk = Desk()
    pair = desk.init()
    desk.add(pair, 0, version=5)
    after = desk.end(pair, False, V2)
    desk.transcript()
    desk.init(pair)
    desk.written()
    assert desk.init(pair) == after
    assert desk.transcript() == [
        "init: CONCURRENT_TRANSACTIONS",
        "(CompleteAbort 100/1)",
        "(Empty 100/1)",
        "init: 100/1",
    ]


def test_requests_that_make_no_sense() -> None:
    desk = Desk()
    desk.init(name="")
    desk.init((5, -1))
    desk.init((-1, 5))
    desk.init(timeout_ms=0)
    desk.init(timeout_ms=900_001)
    desk.init(version=6, enable2_pc=True)
    desk.init(version=6, keep_prepared_txn=True)
    desk.add((1, 0), 0)
    desk.add((1, 0), 0, name="")
    desk.offsets((1, 0))
    desk.end((1, 0), True)
    assert desk.transcript() == [
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
    assert not desk.log


def test_partitions_that_are_refused_keep_the_others_out() -> None:
    desk = Desk()
    pair = desk.init()
    desk.transcript()
    desk.add(pair, 0, 1, refused={("x", 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    desk.add(pair)
    assert desk.transcript()[0] == "add: OPERATION_NOT_ATTEMPTED UNKNOWN_TOPIC_OR_PARTITION"
    assert not desk.transaction.partitions


def test_leaders_ask_whether_a_partition_was_added() -> None:
    desk = Desk()
    pair = desk.init()
    desk.add(pair, 0)
    desk.transcript()
    desk.add(pair, 0, 1, version=5, verify_only=True)
    desk.add((pair[0], 1), 0, version=5, verify_only=True)
    desk.add((7, 0), 0, version=5, verify_only=True)
    desk.end(pair, True)
    desk.add(pair, 0, version=5, verify_only=True)
    desk.written()
    desk.add(pair, 0, version=5, verify_only=True)
    assert desk.transcript() == [
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
    desk = Desk()
    desk.init()
    last = desk.set_epoch(32766)
    desk.transcript()
    assert desk.init(last) == (101, 0)
    assert desk.init(last) == (101, 0)
    desk.reload()
    assert desk.init(last) == (101, 0)
    desk.init((100, 32765))
    assert desk.transcript()[-1] == "init: PRODUCER_FENCED"
    desk.set_epoch(32766)
    assert desk.init() == (102, 0)
    desk.init((101, 32766))
    assert desk.transcript()[-1] == "init: PRODUCER_FENCED"


def test_an_end_takes_a_new_id_when_the_epochs_are_used_up() -> None:
    desk = Desk()
    desk.init()
    pair = desk.set_epoch(32766)
    desk.add(pair, 0, version=5)
    desk.transcript()
    after = desk.end(pair, True, V2)
    desk.end(pair, True, V2)
    desk.add(after, 1, version=5)
    desk.reload()
    desk.end(pair, True, V2)
    desk.written()
    assert desk.end(pair, True, V2) == after
    assert desk.init(pair) == after
    assert desk.transcript() == [
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
    desk = Desk()
    desk.init()
    pair = desk.set_epoch(32766)
    desk.add(pair, 0)
    desk.init()
    desk.written()
    assert (desk.transaction.producer_id, desk.transaction.producer_epoch) == (100, 32767)
    # It is nobody's, whoever guesses it.
    desk.transcript()
    for guess in ((100, 32767), pair):
        desk.add(guess, 0)
        desk.end(guess, False, V2)
        desk.end(guess, False, V1)
    assert (
        desk.transcript()
        == [
            "add: PRODUCER_FENCED",
            "abort: PRODUCER_FENCED",
            "abort: PRODUCER_FENCED",
        ]
        * 2
    )
    desk.init(pair)
    assert desk.init() == (101, 0)
    assert desk.transcript() == ["init: PRODUCER_FENCED", "(Empty 101/0)", "init: 101/0"]


# Time.


@pytest.mark.parametrize("fail_over", [False, True])
def test_a_transaction_that_takes_too_long_is_aborted_and_its_client_fenced(fail_over: bool) -> None:
    desk = Desk()
    pair = desk.init(timeout_ms=10_000)
    desk.wait(5_000)
    desk.add(pair, 0)
    desk.wait(8_000)
    desk.add(pair, 1)
    if fail_over:
        desk.reload()
    desk.transcript()
    desk.wait(1_999)
    assert desk.transcript() == []
    desk.wait(1)
    desk.end(pair, True)
    desk.written()
    desk.add(pair, 1)
    assert desk.transcript() == [
        "(PrepareAbort 100/1: x-[0, 1])",
        "-> abort 100/1 v1 in x-0 x-1",
        "commit: PRODUCER_FENCED",
        "(CompleteAbort 100/1)",
        "add: PRODUCER_FENCED",
    ]


def test_the_time_of_a_transaction_begins_with_it() -> None:
    desk = Desk()
    pair = desk.init(timeout_ms=10_000)
    for _ in range(30):
        desk.add(pair, 0, version=5)
        desk.wait(9_000)
        pair = desk.end(pair, True, V2)
        desk.written()
    desk.wait(60_000)
    assert desk.transaction.producer_epoch == 30
    assert len(desk.shard.context.deadlines) <= 1


def test_ids_that_nobody_uses_are_forgotten() -> None:
    desk = Desk(transactional_id_expiration_ms="600000")
    desk.init(name="idle")
    for index in range(3000):
        desk.init(name=f"idle{index}")
    pair = desk.init(timeout_ms=900_000)
    desk.wait(3_599_000)
    desk.init(name="used")
    desk.add(pair, 0)
    desk.transcript()
    desk.wait(2_000)
    assert {*desk.transcript()} == {"(idle is gone)", *(f"(idle{index} is gone)" for index in range(3000))}
    assert [*desk.shard.context.transactions] == [ID, "used"]
    assert state_of(desk.replayed()) == state_of(desk.shard)
    # The id begins anew, and whoever had it before is fenced by the producer id.
    desk.add((100, 0), 0, name="idle")
    desk.init(name="idle")
    desk.add((100, 0), 0, name="idle")
    assert desk.transcript() == [
        "add: INVALID_PRODUCER_ID_MAPPING",
        "(Empty 3103/0)",
        "init: 3103/0",
        "add: INVALID_PRODUCER_ID_MAPPING",
    ]


# Fail-over.


def test_a_new_coordinator_sends_the_markers_again() -> None:
    desk = Desk()
    pair = desk.init()
    desk.add(pair, 0, 1)
    desk.end(pair, True)
    (old,) = desk.markers
    desk.transcript()
    desk.reload()
    (new,) = desk.markers
    assert (old.coordinator_epoch, new.coordinator_epoch) == (7, 8)
    # What was sent for the coordinator before does not count: its answer may be about anything.
    assert not desk.shard.markers_written(old, desk.now_ms).records
    desk.written()
    assert not desk.shard.markers_written(new, desk.now_ms).records
    assert desk.transcript() == ["-> commit 100/0 v0 in x-0 x-1", "(CompleteCommit 100/0)"]


def test_records_of_others_are_passed_over_and_a_dead_id_is_gone() -> None:
    desk = Desk()
    pair = desk.init()
    desk.shard.apply_bytes(b"\x00\x63what is this", b"\x00\x00", 0)
    changed = desk.transaction.copy()
    changed.state = 6
    desk.shard.apply(changed.key(), changed.value(), 0)
    desk.transcript()
    desk.add(pair, 0)
    assert desk.transcript() == ["add: INVALID_PRODUCER_ID_MAPPING"]


# Looking.


def test_transactions_are_described_and_listed() -> None:
    desk = Desk()
    pair = desk.init()
    desk.add(pair, 0, 1)
    desk.init(name="u")
    desk.wait(500)
    found = desk.shard.describe_transaction(ID)
    assert (found.error_code, found.transaction_state, found.producer_id) == (0, "Ongoing", 100)
    assert (found.transaction_start_time_ms, found.transaction_timeout_ms) == (desk.now_ms - 500, 60_000)
    assert [(each.topic, each.partitions) for each in found.topics] == [("x", [0, 1])]
    assert desk.shard.describe_transaction("v").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert desk.shard.describe_transaction("").error_code == ErrorCode.INVALID_REQUEST
    desk.init((101, 0), name="u")
    assert desk.shard.describe_transaction("u").transaction_start_time_ms == -1

    def listed(**filters: object) -> list[str]:
        found = desk.shard.list_transactions(desk.now_ms, **filters)  # type: ignore[arg-type]
        return [each.transactional_id for each in found]

    assert listed() == ["t", "u"]
    assert listed(states=["Empty"]) == ["u"]
    assert listed(states=["Empty", "Ongoing"]) == ["t", "u"]
    assert listed(producer_ids=[100]) == ["t"]
    assert listed(longer_than_ms=499) == ["t"]
    assert listed(longer_than_ms=500) == []
    assert listed(matches=lambda name: name == "u") == ["u"]
    assert unknown_states(["Empty", "Odd", "PrepareEpochFence"]) == ["Odd"]
