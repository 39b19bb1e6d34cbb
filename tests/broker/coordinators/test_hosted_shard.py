"""A hosted shard: requests, log and timers."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from ottla.broker.coordinators.hosted_shard import ACTIVE, ENDED, LOADING
from ottla.broker.coordinators.replay import Replay
from ottla.broker.hosting.machine_clock import LATE_MS
from ottla.protocol.errors import ErrorCode
from ottla.records.batch import iter_headers
from ottla.records.build import build_batch
from ottla.records.control import end_txn_marker
from ottla.storage.errors import StorageError
from ottla.testing.files import FaultyFiles
from tests.support.broker.adder import NOW, TIMEOUT_MS, Adder, Harness, play, turns

GZIP = 1


def test_reads_are_answered_at_once() -> None:
    async def scenario(harness: Harness) -> None:
        assert harness.look() == 0
        assert await harness.add(3) == 3
        assert harness.look() == 3
        assert harness.shard.machine.loads == 1

    play(scenario)


def test_decisions_of_one_iteration_share_a_batch_and_are_answered_in_order() -> None:
    async def scenario(harness: Harness) -> None:
        order: list[Any] = []
        asked = [harness.add(1), harness.add(2), harness.look(), harness.add(3)]
        for future in asked:
            future.add_done_callback(lambda done: order.append(done.result()))
        assert await asyncio.gather(*asked) == [1, 3, 3, 6]
        assert order == [1, 3, 3, 6]
        assert await harness.add(4) == 10
        assert harness.batches() == [3, 1]

    play(scenario)


def test_batches_may_be_compressed() -> None:
    async def scenario(harness: Harness) -> None:
        harness.settings.codec = GZIP
        harness.restart()
        assert await asyncio.gather(harness.add(1), harness.add(2)) == [1, 3]
        data = harness.log.read(0, 1000).read()
        assert [header.codec for _, header in iter_headers(data)] == [GZIP]
        replay = Replay(harness.log, Adder())
        while replay.step():
            pass
        assert replay.records == 2

    play(scenario)


def test_a_waiting_request_is_answered_by_another_decision() -> None:
    async def scenario(harness: Harness) -> None:
        waiting = [harness.wait(), harness.wait()]
        await turns()
        assert not any(future.done() for future in waiting)
        waiting[0].cancel()  # the peer has left
        assert await harness.tell() == 1
        assert await waiting[1] == "told 1"
        assert harness.look() == 1

    play(scenario)


def test_with_followers_replies_wait_for_the_commit() -> None:
    async def scenario(harness: Harness) -> None:
        first = harness.add(1)
        await turns()
        second, seen = harness.add(2), harness.look()
        await turns()
        assert not (first.done() or second.done() or seen.done())
        harness.fetched(1)
        await turns()
        assert first.done() and not second.done() and not seen.done()
        harness.fetched(2)
        assert (await first, await second, await seen) == (1, 3, 3)
        assert harness.look() == 3

    play(scenario, followers=True)


def test_records_are_committed_even_if_the_isr_shrinks_after_the_append() -> None:
    async def scenario(harness: Harness) -> None:
        first = harness.add(1)
        await turns()
        assert harness.leader is not None
        harness.leader.high_watermark = 1
        harness.leader.isr = harness.leader.maximal_isr = (1,)
        harness.partition.commit(1)
        assert await first == 1
        assert harness.add(2) == "COORDINATOR_NOT_AVAILABLE", "too few replicas in sync to start"
        assert harness.look() == 1

    play(scenario, followers=True)


def test_a_request_times_out_when_the_commit_takes_too_long() -> None:
    async def scenario(harness: Harness) -> None:
        first = harness.add(1)
        await turns()
        harness.now_ms += TIMEOUT_MS
        assert await first == "COORDINATOR_NOT_AVAILABLE"
        seen = harness.look()
        harness.fetched()
        assert await seen == 1, "it was committed nevertheless"

    play(scenario, followers=True)


def test_losing_the_leadership_refuses_all_requests() -> None:
    async def scenario(harness: Harness) -> None:
        parked = harness.wait()
        first = harness.add(1)
        await turns()
        undecided = harness.add(2)
        harness.partition.make_leaderless(1)
        assert (await first, await undecided, await parked) == (
            "NOT_COORDINATOR",
            "NOT_COORDINATOR",
            "left: NOT_COORDINATOR",
        )
        assert harness.shard.state == ENDED
        assert harness.look() == "COORDINATOR_NOT_AVAILABLE"
        assert not harness.failed

    play(scenario, followers=True)


def test_a_full_disk_loses_no_decision() -> None:
    async def scenario(harness: Harness) -> None:
        assert await harness.add(1) == 1
        harness.files.room_bytes = 0
        waiting = harness.add(2)
        await turns()
        assert harness.add(4) == "COORDINATOR_NOT_AVAILABLE", "no new decision before the retry succeeds"
        harness.files.room_bytes = None
        assert await waiting == 3
        assert await harness.add(8) == 11
        assert harness.batches() == [1, 1, 1]

    play(scenario)


def test_a_log_that_cannot_be_written_ends_the_shard(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(harness: Harness) -> None:
        parked = harness.wait()
        harness.files.fail_under("/data")
        assert await harness.add(1) == "COORDINATOR_NOT_AVAILABLE"
        assert await parked == "left: COORDINATOR_NOT_AVAILABLE"
        assert harness.failed == [harness.shard]

    with caplog.at_level(logging.CRITICAL):
        play(scenario)


def test_a_commit_that_fails_ends_the_shard() -> None:
    async def scenario(harness: Harness) -> None:
        waiting = harness.add(1)
        await turns()
        harness.partition.commit_failed(StorageError("the disk", "is gone"))
        assert await waiting == "COORDINATOR_NOT_AVAILABLE"
        assert harness.failed == [harness.shard]

    play(scenario, followers=True)


def test_a_failed_decision_leaves_no_partial_state() -> None:
    def broken(machine: Any, now_ms: int) -> Any:
        machine.add(1)
        raise KeyError("bug")

    async def scenario(harness: Harness) -> None:
        parked = harness.wait()
        assert harness.shard.submit(broken, lambda code: ErrorCode(code).name) == "UNKNOWN_SERVER_ERROR"
        assert await parked == "left: COORDINATOR_NOT_AVAILABLE"
        assert harness.failed == [harness.shard]

    play(scenario)


def test_large_outcomes_become_several_batches() -> None:
    async def scenario(harness: Harness) -> None:
        harness.settings.encode = lambda number: (b"key", b"x" * (3_000_000 if number == 99 else 400_000))
        harness.restart()
        asked = [harness.add(number) for number in range(5)]
        await asyncio.gather(*asked)
        assert harness.batches() == [2, 2, 1]
        await harness.add(99)
        assert harness.batches() == [2, 2, 1, 1], "larger than a client may write"

    play(scenario)


def test_a_load_is_a_replay() -> None:
    files = FaultyFiles()

    async def write(harness: Harness) -> None:
        first, second = harness.add(1), harness.add(10, producer=(7, 0))
        third, fourth = harness.add(100), harness.add(1000, producer=(8, 0))
        await asyncio.gather(first, second, third, fourth)
        assert harness.batches() == [1, 1, 1, 1], "records of a producer have separate batches"
        for producer_id, commit in ((7, True), (8, False)):
            marker = end_txn_marker(producer_id, 0, commit=commit, coordinator_epoch=0, timestamp_ms=NOW)
            harness.partition.append_internal(marker, NOW)
        nonsense = [(NOW, b"key", b"no number", ()), (NOW, None, b"7", ()), (NOW, b"key", b"5", ())]
        harness.partition.append_internal(build_batch(nonsense), NOW)  # type: ignore[arg-type]

    async def read(harness: Harness) -> None:
        assert harness.shard.state == LOADING
        assert harness.look() == "COORDINATOR_LOAD_IN_PROGRESS"
        harness.shard.event(lambda machine, now_ms: machine.add(1_000_000))
        await harness.load()
        seen = harness.look()
        await turns()
        assert (seen if isinstance(seen, int) else await seen) == 1_000_116

    play(write, files=files)
    play(read, files=files)


def test_loaded_but_uncommitted_state_is_not_returned() -> None:
    files = FaultyFiles()

    async def write(harness: Harness) -> None:
        await harness.add(1)

    async def read(harness: Harness) -> None:
        harness.partition.high_watermark = 0
        await harness.load()
        seen = harness.look()
        await turns()
        assert not seen.done()
        harness.fetched()
        assert await seen == 1

    play(write, files=files)
    play(read, files=files, followers=True)


def test_a_log_that_cannot_be_read_fails_the_shard(caplog: pytest.LogCaptureFixture) -> None:
    files = FaultyFiles()

    async def write(harness: Harness) -> None:
        await harness.add(1)

    async def read(harness: Harness) -> None:
        files.fail_under("/data")
        await harness.shard.load()
        assert harness.shard.state == ENDED
        assert harness.failed == [harness.shard]

    play(write, files=files)
    play(read, files=files)


def test_late_timers_run_after_waiting_requests() -> None:
    async def scenario(harness: Harness) -> None:
        assert harness.look() == 0
        machine = harness.shard.machine
        machine.next_wake_ms = harness.now_ms + 5
        harness.look()
        harness.now_ms += 5
        while not machine.ticks:
            await asyncio.sleep(0.001)
        assert machine.ticks == [NOW + 5]
        # The whole process was blocked.
        machine.next_wake_ms = harness.now_ms + 5
        harness.look()
        harness.now_ms += LATE_MS + 10
        await asyncio.sleep(0.05)
        assert machine.ticks == [NOW + 5]
        while len(machine.ticks) < 2:
            await asyncio.sleep(0.01)

    play(scenario)


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
def test_a_clock_jump_is_reported_before_the_next_decision(
    jump_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    class Patient(Adder):
        def clock_jumped(self, by_ms: int) -> None:
            assert self.next_wake_ms is not None and abs(by_ms - jump_ms) < 50
            self.next_wake_ms += by_ms

    async def scenario(harness: Harness) -> None:
        loop = asyncio.get_running_loop()
        began_s, set_by_ms = loop.time(), 0

        def clock() -> int:
            return NOW + set_by_ms + round((loop.time() - began_s) * 1000)

        harness.settings.clock = clock
        harness.settings.make_machine = lambda partition: Patient()
        harness.restart()
        harness.look()
        machine = harness.shard.machine
        machine.next_wake_ms = due_ms = clock() + 100
        harness.look()
        set_by_ms = jump_ms
        harness.look()
        assert machine.ticks == [] and abs(machine.next_wake_ms - due_ms - jump_ms) < 50
        while not machine.ticks:
            await asyncio.sleep(0.01)
        assert machine.ticks[0] >= due_ms + jump_ms - 50

    with caplog.at_level(logging.WARNING):
        play(scenario)
    assert "the clock was set" in caplog.text


def test_a_shard_without_records_is_idle_until_the_first_request() -> None:
    async def scenario(harness: Harness) -> None:
        assert harness.shard.machine is None
        assert harness.look() == 0
        assert harness.shard.state == ACTIVE

    play(scenario)
