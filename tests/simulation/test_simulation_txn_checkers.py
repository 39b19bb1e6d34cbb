"""Each transaction checker reports its violation, and none reports a correct history."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from simulator.history.history import History
from simulator.history.operations import PartitionName
from simulator.history.transactions import (
    ABORT,
    ABORTED,
    COMMIT,
    COMMITTED,
    DATA,
    UNKNOWN,
    LogEntry,
    TxnEntry,
    TxnLedger,
)
from simulator.transactions import checkers as txn_checkers
from simulator.world import World

A, B = PartitionName("accounts", 0), PartitionName("accounts", 1)
INPUT = PartitionName("events", 0)
PAIR = (7, 3)
NEXT = (7, 4)


class SmallHistory:
    """A small history: a committed transfer over two partitions, and an aborted one."""

    def __init__(self) -> None:
        self.world = World(1)
        self.ledger = TxnLedger(self.world, "accounts", 2)
        self.ledger.input_topic = INPUT.topic
        self.first = self.transaction(PAIR, COMMITTED, {"t1.0:5": A, "t1.1:-5": B})
        self.second = self.transaction(NEXT, ABORTED, {"t2.0:9": A, "t2.1:-9": B})
        self.ledger.final["auditor"] = {A: [(0, "t1.0:5")], B: [(0, "t1.1:-5")]}
        self.ledger.logs[A] = [
            LogEntry(DATA, 0, PAIR, ("t1.0:5",)),
            LogEntry(COMMIT, 1, NEXT, ()),
            LogEntry(DATA, 2, NEXT, ("t2.0:9",)),
            LogEntry(ABORT, 3, (7, 5), ()),
        ]

    @property
    def history(self) -> History:
        return self.world.history

    def transaction(self, pair: tuple[int, int], outcome: str, values: dict[str, PartitionName]) -> TxnEntry:
        entry = self.ledger.begin("w", "w.1", pair, 2)
        for value, name in values.items():
            self.ledger.write(entry, value, name)
        self.ledger.end_sent(entry, commit=outcome != ABORTED)
        self.ledger.ended(entry, outcome)
        return entry

    def complaints(self) -> list[str]:
        return [text for checker in txn_checkers.TRANSACTIONS for text in checker(self.history)]


def lose_a_record(told: SmallHistory) -> None:
    told.ledger.final["heir"] = {A: [(0, "t1.0:5")], B: []}


def read_the_aborted(told: SmallHistory) -> None:
    told.ledger.read("rc", A, 2, "t2.0:9", committed=True)


def read_an_unwritten_record(told: SmallHistory) -> None:
    told.ledger.read("rc", A, 0, "t9.0:1", committed=True)


def tear_the_unknown(told: SmallHistory) -> None:
    told.first.outcome = UNKNOWN
    told.ledger.final["auditor"][B] = []


def write_twice(told: SmallHistory) -> None:
    told.ledger.final["auditor"][A].append((1, "t1.0:5"))


def end_two_with_one_marker(told: SmallHistory) -> None:
    told.ledger.logs[A] = [
        LogEntry(DATA, 0, PAIR, ("t1.0:5",)),
        LogEntry(DATA, 1, NEXT, ("t2.0:9",)),
        LogEntry(COMMIT, 2, (7, 5), ()),
    ]


def commit_the_aborted(told: SmallHistory) -> None:
    told.ledger.logs[A][-1] = LogEntry(COMMIT, 3, (7, 5), ())


def write_under_an_old_epoch(told: SmallHistory) -> None:
    told.ledger.logs[A].append(LogEntry(DATA, 4, PAIR, ("t1.1:-5",)))


def accept_a_zombie(told: SmallHistory) -> None:
    told.ledger.take_over("w", "w.2", NEXT, keeps=False)
    told.ledger.acknowledge("w", "w.1", PAIR, told.ledger.now_ns, "a write")


def go_back(told: SmallHistory) -> None:
    told.ledger.saw_stable("rc", A, 9, 0, 1)
    told.ledger.saw_stable("rc", A, 8, 0, 1)


def go_back_behind_what_was_read(told: SmallHistory) -> None:
    told.ledger.saw_stable("rc", A, 3, 4, 2)


def lose_what_was_read(told: SmallHistory) -> None:
    told.ledger.read("rc", A, 1, "t1.0:5", committed=True)


def lose_what_was_read_uncommitted(told: SmallHistory) -> None:
    told.ledger.read("ru", A, 2, "t1.0:5", committed=False)


def hang(told: SmallHistory) -> None:
    told.ledger.hanging.append("accounts-0 is decided to 4 of 5")


def process_twice(told: SmallHistory) -> None:
    told.history.final[INPUT] = [(0, "p1.0.0")]
    told.transaction((8, 0), COMMITTED, {"t3=p1.0.0": A})
    told.transaction((8, 1), COMMITTED, {"t4=p1.0.0": A})
    told.ledger.final["auditor"][A] += [(4, "t3=p1.0.0"), (6, "t4=p1.0.0")]


def process_never(told: SmallHistory) -> None:
    told.history.final[INPUT] = [(0, "p1.0.0")]


def forget_an_offset(told: SmallHistory) -> None:
    told.first.offsets[0] = 4
    told.ledger.final_offsets = {0: 3}


def unbalance_the_accounts(told: SmallHistory) -> None:
    told.transaction((8, 0), COMMITTED, {"t3.0:1": A})
    told.ledger.final["auditor"][A].append((4, "t3.0:1"))


def issue_a_pair_twice(told: SmallHistory) -> None:
    told.ledger.issue(PAIR, "w", "w.1")
    told.ledger.issue(PAIR, "w", "w.2")


def issue_an_id_to_two_transactional_ids(told: SmallHistory) -> None:
    told.ledger.issue(PAIR, "w", "w.1")
    told.history.producer_ids.append((7, "p1"))


def lose_the_prepared(told: SmallHistory) -> None:
    told.ledger.prepared_lost.append("t1 was prepared")


def test_a_correct_history_has_no_complaints() -> None:
    told = SmallHistory()
    told.ledger.read("rc", A, 0, "t1.0:5", committed=True)
    told.ledger.read("ru", A, 2, "t2.0:9", committed=False)
    told.ledger.saw_stable("rc", A, 2, 0, 1)
    told.ledger.saw_stable("rc", A, 4, 2, 1)
    told.ledger.saw_stable("rc", A, 4, 4, 2)
    told.ledger.issue(PAIR, "w", "w.1")
    told.ledger.issue(PAIR, "w", "w.1")
    told.ledger.take_over("w", "w.1", PAIR, keeps=False)
    told.ledger.acknowledge("w", "w.1", NEXT, told.ledger.now_ns, "a write")
    assert told.complaints() == []


@pytest.mark.parametrize(
    ("spoil", "sign"),
    [
        (lose_a_record, "lost transaction"),
        (read_the_aborted, "aborted read"),
        (read_an_unwritten_record, "aborted read"),
        (tear_the_unknown, "torn"),
        (write_twice, "twice"),
        (end_two_with_one_marker, "later transaction"),
        (commit_the_aborted, "later transaction"),
        (write_under_an_old_epoch, "old epoch"),
        (accept_a_zombie, "zombie"),
        (go_back, "stable offset went back"),
        (go_back_behind_what_was_read, "stable offset went back"),
        (lose_what_was_read, "lost read"),
        (lose_what_was_read_uncommitted, "lost read"),
        (hang, "hanging"),
        (process_twice, "exactly once"),
        (process_never, "exactly once"),
        (forget_an_offset, "exactly once"),
        (unbalance_the_accounts, "bank"),
        (issue_a_pair_twice, "pair twice"),
        (issue_an_id_to_two_transactional_ids, "pair twice"),
        (lose_the_prepared, "prepared lost"),
    ],
)
def test_a_violation_is_reported(spoil: Callable[[SmallHistory], None], sign: str) -> None:
    told = SmallHistory()
    spoil(told)
    assert any(text.startswith(sign) for text in told.complaints())


def test_an_unknown_outcome_may_be_all_or_nothing() -> None:
    for records in ({A: [(0, "t1.0:5")], B: [(0, "t1.1:-5")]}, {A: [], B: []}):
        told = SmallHistory()
        told.first.outcome = UNKNOWN
        told.ledger.final["auditor"] = records
        assert told.complaints() == []


def test_keeping_a_prepared_transaction_allows_old_writes_but_no_end() -> None:
    told = SmallHistory()
    told.ledger.take_over("w", "w.2", NEXT, keeps=True)
    told.ledger.acknowledge("w", "w.1", PAIR, told.ledger.now_ns, "a write")
    assert told.complaints() == []
    told.ledger.acknowledge("w", "w.1", PAIR, told.ledger.now_ns, "the commit of t1", is_end=True)
    assert any(text.startswith("zombie") for text in told.complaints())
