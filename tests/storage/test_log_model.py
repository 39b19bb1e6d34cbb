"""PartitionLog against a list: it contains a contiguous run of the appended batches and all synced ones."""

from __future__ import annotations

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.records.batch import iter_headers
from ottla.records.build import build_batch
from ottla.storage.errors import DiskFull
from ottla.storage.log import open_log
from ottla.storage.log.flush_job import FlushJob
from ottla.storage.log_config import LogConfig
from ottla.testing.files import FaultyFiles

DIRECTORY = "/data/topic-0"
CONFIG = LogConfig(
    {"segment.bytes": 700, "index.interval.bytes": 150, "retention.ms": 1000, "file.delete.delay.ms": 5}
)


class Stored:
    """One appended batch in the model."""

    def __init__(self, first: int, count: int, timestamp: int, data: bytes) -> None:
        self.first = first
        self.last = first + count - 1
        self.timestamp = timestamp
        self.data = data


class LogMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.files = FaultyFiles()
        self.files.mkdir("/data")
        self.files.sync_dir("")
        self.batches: list[Stored] = []
        self.start = 0
        self.end = 0
        self.durable = 0
        self.epoch = 0
        self.now_ms = 10_000
        self.job: FlushJob | None = None
        self.log = open_log(self.files, DIRECTORY, CONFIG, now_ms=self.now_ms)

    def make(self, count: int, size: int, age_ms: int) -> bytearray:
        timestamp = self.now_ms - age_ms
        value = bytes([self.end % 251]) * size
        return build_batch([(timestamp - i, None, value, ()) for i in range(count)])

    def append_data(self, data: bytearray, count: int, age_ms: int) -> None:
        result = self.log.append_internal(data, self.epoch, self.now_ms)
        assert (result.first_offset, result.last_offset) == (self.end, self.end + count - 1)
        self.batches.append(Stored(self.end, count, self.now_ms - age_ms, bytes(data)))
        self.end += count

    @rule(count=st.integers(1, 4), size=st.integers(0, 200), age_ms=st.integers(0, 3000))
    def append(self, count: int, size: int, age_ms: int) -> None:
        self.append_data(self.make(count, size, age_ms), count, age_ms)

    @rule(count=st.integers(2, 30))
    def append_many(self, count: int) -> None:
        for _ in range(count):
            self.append_data(self.make(1, 20, 0), 1, 0)

    @rule(room=st.integers(0, 400))
    def append_until_full(self, room: int) -> None:
        self.files.room_bytes = room
        try:
            for _ in range(4):
                self.append_data(self.make(1, 60, 0), 1, 0)
        except DiskFull:
            pass
        self.files.room_bytes = None

    @rule()
    def next_epoch(self) -> None:
        self.epoch += 1

    @rule(by=st.integers(1, 900))
    def time_passes(self, by: int) -> None:
        self.now_ms += by

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)

    @rule()
    def flush(self) -> None:
        self.log.flush(self.now_ms)
        self.durable = self.end

    @precondition(lambda self: self.job is None)
    @rule()
    def begin_flush(self) -> None:
        self.job = self.log.begin_flush()

    @precondition(lambda self: self.job is not None)
    @rule()
    def end_flush(self) -> None:
        assert self.job is not None
        self.job.run()
        self.log.finish_flush(self.job, self.now_ms)
        self.durable = max(self.durable, self.log.recovery_point)
        self.job = None

    @rule(at=st.floats(0, 1))
    def truncate(self, at: float) -> None:
        offset = self.start + int(at * (self.end - self.start))
        self.log.truncate_to(offset)
        self.batches = [batch for batch in self.batches if batch.last < offset]
        self.end = self.log.log_end_offset
        assert self.end <= offset
        expected = self.batches[-1].last + 1 if self.batches else self.end
        assert self.end == expected
        self.durable = min(self.durable, self.end)
        self.start = min(self.start, self.end)
        assert self.log.log_start_offset == self.start

    @rule(at=st.floats(0, 1))
    def advance_start(self, at: float) -> None:
        offset = self.start + int(at * (self.end - self.start))
        self.log.advance_log_start_offset(offset)
        self.start = offset

    @rule(at=st.floats(0, 1))
    def retention(self, at: float) -> None:
        upper = self.start + int(at * (self.end - self.start))
        self.log.delete_old_segments(self.now_ms, upper)
        first_base = self.log.segments[0].base_offset
        assert self.start <= self.log.log_start_offset <= max(upper, self.start)
        gone = [batch for batch in self.batches if batch.last < first_base]
        assert all(batch.last < upper for batch in gone)
        self.start = self.log.log_start_offset
        self.batches = [
            batch for batch in self.batches if batch.last >= self.start or batch.first >= first_base
        ]
        self.log.remove_due(self.now_ms)

    @rule()
    def reopen_clean(self) -> None:
        self.job = None
        self.log.close(self.now_ms)
        self.durable = self.end
        assert self.log.recovery_point == self.end
        self.reopen(clean=True, recovery_point=self.end)
        assert self.log.log_end_offset == self.end

    @rule(seed=st.integers(0, 1 << 30), synced_names=st.booleans())
    def crash(self, seed: int, synced_names: bool) -> None:
        self.job = None
        rng = random.Random(seed)
        self.files.crash(rng if synced_names else None)
        # The checkpoint is never newer than the log's own recovery point.
        self.reopen(
            clean=False, recovery_point=rng.choice([self.log.recovery_point, min(self.start, self.durable)])
        )
        end = self.log.log_end_offset
        assert self.durable <= end <= max(self.end, self.start)
        self.batches = [batch for batch in self.batches if batch.last < end]
        if self.log.segments[0].base_offset == end:
            # All remaining data was below the log start offset: the log is recreated there.
            self.batches = []
        self.end = end
        assert not self.batches or self.batches[-1].last == end - 1
        self.durable = min(self.durable, end)

    @rule(damage=st.sampled_from(["missing", "garbage", "short", "zeros"]), pick=st.integers(0, 100))
    def damage_index(self, damage: str, pick: int) -> None:
        """Damage an index file after a clean stop."""
        self.log.close(self.now_ms)
        self.job = None
        self.durable = self.end
        paths = [path for path in self.files.nodes if path.endswith((".index", ".timeindex"))]
        if paths:
            node = self.files.nodes[paths[pick % len(paths)]]
            if damage == "missing":
                self.files.remove(paths[pick % len(paths)])
            elif damage == "garbage":
                node.data[:] = b"\xff" * len(node.data)
            elif damage == "short":
                del node.data[-3:]
            else:
                node.data += bytes(120)
        self.reopen(clean=True, recovery_point=self.end)
        assert self.log.log_end_offset == self.end

    def reopen(self, *, clean: bool, recovery_point: int) -> None:
        self.log = open_log(
            self.files,
            DIRECTORY,
            CONFIG,
            now_ms=self.now_ms,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=self.start,
        )
        self.start = self.log.log_start_offset

    @rule(
        at=st.floats(0, 1),
        upper=st.floats(0, 1),
        max_bytes=st.integers(0, 2000),
        min_one=st.booleans(),
    )
    def read(self, at: float, upper: float, max_bytes: int, min_one: bool) -> None:
        offset = self.start + int(at * (self.end - self.start))
        upper_offset = self.start + round(upper * (self.end - self.start))
        data = self.log.read(offset, max_bytes, upper_offset, min_one).read()
        expected = [batch for batch in self.batches if batch.last >= offset and batch.last < upper_offset]
        position = count = 0
        for batch in expected:
            if data[position : position + len(batch.data)] != batch.data:
                break
            position += len(batch.data)
            count += 1
        assert position == len(data), "whole batches in order, from the one with the offset, below the bound"
        assert position <= max_bytes or (min_one and count == 1)
        if offset < upper_offset and count < len(expected):
            following = expected[count]
            next_segment = count > 0 and following.first in {s.base_offset for s in self.log.segments}
            too_large = position + len(following.data) > max_bytes
            assert next_segment or (too_large and not (min_one and count == 0))

    @rule()
    def read_all(self) -> None:
        offset, found = self.start, []
        while offset < self.end:
            data = self.log.read(offset, 300).read()
            headers = list(iter_headers(data))
            assert headers, "a read inside the log returns at least one batch"
            found += [header.base_offset for _, header in headers]
            offset = headers[-1][1].next_offset
        assert found == [batch.first for batch in self.batches if batch.last >= self.start]

    @rule(ago=st.integers(-10, 4000))
    def find_by_time(self, ago: int) -> None:
        wanted = self.now_ms - ago
        found = self.log.offset_for_timestamp(wanted)
        candidates = [
            (batch.first + i, batch.timestamp - i)
            for batch in self.batches
            for i in range(batch.last - batch.first + 1)
            if batch.timestamp - i >= wanted and batch.first + i >= self.start
        ]
        assert (None if found is None else (found.offset, found.timestamp)) == (
            candidates[0] if candidates else None
        )

    @invariant()
    def bounds(self) -> None:
        if hasattr(self, "log"):
            assert self.log.log_end_offset == self.end
            assert self.log.log_start_offset == self.start
            assert self.log.recovery_point <= self.end
            starts = [start for _, start in self.log.leader_epochs.entries()]
            assert starts == sorted(starts)


LogMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestLogModel = LogMachine.TestCase
