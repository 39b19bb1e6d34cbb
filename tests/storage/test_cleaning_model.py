"""Compaction against a model: random logs with keys, nulls, transactions and codecs, cleaned repeatedly."""

from __future__ import annotations

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.records.build import build_batch
from ottla.records.control import end_txn_marker
from ottla.storage.cleaning.plan import plan_clean
from ottla.storage.log import open_log
from ottla.storage.log_config import LogConfig
from ottla.testing.files import FaultyFiles
from tests.support.storage.cleaning import aborted_offsets, batches_of, clean, data_of, expected, plain_kernel

DIRECTORY = "/data/topic-0"
CONFIG = LogConfig(
    {
        "cleanup.policy": "compact",
        "segment.bytes": 900,
        "index.interval.bytes": 100,
        "delete.retention.ms": 50,
        "file.delete.delay.ms": 5,
    }
)
KEYS = st.one_of(st.none(), st.integers(0, 9).map(lambda n: b"key%d" % n))
VALUES = st.one_of(st.none(), st.integers(0, 60).map(lambda n: b"v" * n))
ROWS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4)


class CleaningMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 1 << 30))
    def begin(self, seed: int) -> None:
        self.files = FaultyFiles()
        self.files.mkdir("/data")
        self.files.sync_dir("")
        self.rng = random.Random(seed)
        self.now_ms = 10_000
        self.sequences: dict[int, int] = {}
        self.in_transaction: dict[int, None] = {}
        self.truth: dict[bytes, bytes | None] = {}  # the final value of each key for a read_committed reader
        self.pending: dict[int, list[tuple[int, bytes, bytes | None]]] = {}
        self.newest: dict[bytes, int] = {}
        self.log = open_log(self.files, DIRECTORY, CONFIG, now_ms=self.now_ms)

    def learn(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        if key is not None and offset > self.newest.get(key, -1):
            self.newest[key] = offset
            self.truth[key] = value

    @rule(rows=ROWS, codec=st.integers(0, 4), append_time=st.booleans())
    def append(self, rows: list[tuple[bytes | None, bytes | None]], codec: int, append_time: bool) -> None:
        batch = build_batch(
            [(self.now_ms - i, key, value, ()) for i, (key, value) in enumerate(rows)],
            codec=codec,
            log_append_time_ms=self.now_ms if append_time else None,
        )
        first = self.log.append_internal(batch, 0, self.now_ms).first_offset
        for index, (key, value) in enumerate(rows):
            self.learn(first + index, key, value)

    @rule(rows=ROWS, producer=st.integers(1, 3), codec=st.sampled_from([0, 0, 3]))
    def append_in_transaction(
        self, rows: list[tuple[bytes | None, bytes | None]], producer: int, codec: int
    ) -> None:
        sequence = self.sequences.get(producer, 0)
        batch = build_batch(
            [(self.now_ms, key, value, ()) for key, value in rows],
            codec=codec,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        first = self.log.append_internal(batch, 0, self.now_ms).first_offset
        self.sequences[producer] = sequence + len(rows)
        self.in_transaction[producer] = None
        waiting = self.pending.setdefault(producer, [])
        waiting += [(first + index, key, value) for index, (key, value) in enumerate(rows) if key is not None]

    @rule(producer=st.integers(1, 3), commit=st.booleans())
    def end_transaction(self, producer: int, commit: bool) -> None:
        marker = end_txn_marker(producer, 0, commit=commit, coordinator_epoch=1, timestamp_ms=self.now_ms)
        self.log.append_internal(marker, 0, self.now_ms)
        self.in_transaction.pop(producer, None)
        for offset, key, value in self.pending.pop(producer, ()):
            if commit:
                self.learn(offset, key, value)

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)
        self.log.flush(self.now_ms)

    @rule(ms=st.integers(1, 60))
    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.log.remove_due(self.now_ms)

    @rule(chunk_bytes=st.integers(61, 2000))
    def clean(self, chunk_bytes: int) -> None:
        log = self.log
        log.flush(self.now_ms)
        plan = plan_clean(log, log.last_stable_offset(log.log_end_offset), self.now_ms)
        if not plan.dirty_bytes:
            return
        left = expected(log, plan.first_dirty, plan.upper_offset, self.now_ms)
        before = {header.base_offset: header for header, _ in batches_of(log)}
        aborted = log.aborted_transactions(0, log.log_end_offset)
        assert clean(log, self.now_ms, chunk_bytes=chunk_bytes)
        assert log.cleaned_offset == plan.upper_offset
        assert data_of(log) == left
        gone = aborted_offsets(log)
        assert all(offset >= plan.upper_offset for offset in gone), "aborted records are left"
        for header, _ in batches_of(log):
            was = before[header.base_offset]
            for name in ("last_offset", "leader_epoch", "producer_id", "producer_epoch", "base_sequence"):
                assert getattr(header, name) == getattr(was, name)
        assert set(log.aborted_transactions(0, log.log_end_offset)) <= set(aborted)

    @precondition(lambda self: not self.in_transaction)
    @rule(how=st.sampled_from(["close", "kill", "power", "lose snapshots"]))
    def reopen(self, how: str) -> None:
        self.log.flush(self.now_ms)
        end, recovery_point = self.log.log_end_offset, self.log.recovery_point
        if how == "close":
            self.log.close(self.now_ms)
        cleaned = self.log.cleaned_offset
        if how == "power":
            self.files.crash(self.rng)
        if how == "lose snapshots":
            for name in list(self.files.nodes):
                if name.endswith(".snapshot"):
                    self.files.remove(name)
        self.log = open_log(
            self.files,
            DIRECTORY,
            CONFIG,
            now_ms=self.now_ms,
            clean=how == "close",
            recovery_point=recovery_point,
        )
        self.log.cleaned_offset = cleaned
        assert self.log.log_end_offset == end

    @invariant()
    def the_last_committed_value_of_each_key_is_there(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        open_now = {offset for waiting in self.pending.values() for offset, _, _ in waiting}
        found: dict[bytes, bytes | None] = {}
        for offset, record in data_of(log).items():
            if record.key is not None and offset not in open_now:
                found[record.key] = record.value
        for key, value in self.truth.items():
            assert found.get(key) == value, key
            if value is not None:
                assert key in found
        assert all(found[key] is None or key in self.truth for key in found)

    @invariant()
    def producers_are_known(self) -> None:
        if not hasattr(self, "log"):
            return
        for producer, sequence in self.sequences.items():
            assert self.log.producer_state.entries[producer].next_sequence == sequence
        stable = self.log.last_stable_offset(self.log.log_end_offset)
        assert (stable == self.log.log_end_offset) is (not self.in_transaction)

    @invariant()
    def offsets_rise_and_every_one_can_be_asked_for(self) -> None:
        if not hasattr(self, "log"):
            return
        last = -1
        for header, _ in batches_of(self.log):
            assert header.base_offset > last
            last = header.last_offset
        assert last == self.log.log_end_offset - 1


class PlainCleaningMachine(CleaningMachine):
    def __init__(self) -> None:
        super().__init__()
        self._plain = plain_kernel()
        self._plain.__enter__()

    def teardown(self) -> None:
        self._plain.__exit__(None, None, None)


TestCleaning = CleaningMachine.TestCase
TestCleaning.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestPlainCleaning = PlainCleaningMachine.TestCase
TestPlainCleaning.settings = settings(max_examples=15, stateful_step_count=40, deadline=None)
