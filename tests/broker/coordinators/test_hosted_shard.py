"""A shard between requests, its log and time."""

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
from tests.support.broker.adder import NOW, TIMEOUT_MS, Adder, Desk, play, turns

GZIP = 1


def test_what_changes_nothing_is_answered_on_the_spot() -> None:
    async def scene(desk: Desk) -> None:
        assert desk.look() == 0
        assert await desk.add(3) == 3
        assert desk.look() == 3
        assert desk.shard.machine.loads == 1

    play(scene)


def test_what_one_turn_decides_is_one_batch_and_answered_in_order() -> None:
    async def scene(desk: Desk) -> None:
        order: list[Any] = []
        asked = [desk.add(1), desk.add(2), desk.look(), desk.add(3)]
        for future in asked:
            future.add_done_callback(lambda done: order.append(done.result()))
        assert await asyncio.gather(*asked) == [1, 3, 3, 6]
        assert order == [1, 3, 3, 6]
        assert await desk.add(4) == 10
        assert desk.batches() == [3, 1]

    play(scene)


def test_what_is_written_may_be_compressed() -> None:
    async def scene(desk: Desk) -> None:
        desk.settings.codec = GZIP
        desk.restart()
        assert await asyncio.gather(desk.add(1), desk.add(2)) == [1, 3]
        data = desk.log.read(0, 1000).read()
        assert [header.codec for _, header in iter_headers(data)] == [GZIP]
        replay = Replay(desk.log, Adder())
        while replay.step():
            pass
        assert replay.records == 2

    play(scene)


def test_who_waits_is_answered_by_another_request() -> None:
    async def scene(desk: Desk) -> None:
        waiting = [desk.wait(), desk.wait()]
        await turns()
        assert not any(future.done() for future in waiting)
        waiting[0].cancel()  # the peer has left
        assert await desk.tell() == 1
        assert await waiting[1] == "told 1"
        assert desk.look() == 1

    play(scene)


def test_with_followers_nothing_is_told_before_it_is_committed() -> None:
    async def scene(desk: Desk) -> None:
        first = desk.add(1)
        await turns()
        second, seen = desk.add(2), desk.look()
        await turns()
        assert not (first.done() or second.done() or seen.done())
        desk.fetched(1)
        await turns()
        assert first.done() and not second.done() and not seen.done()
        desk.fetched(2)
        assert (await first, await second, await seen) == (1, 3, 3)
        assert desk.look() == 3

    play(scene, followers=True)


def test_an_isr_that_shrank_behind_the_append_has_committed_it() -> None:
    async def scene(desk: Desk) -> None:
        first = desk.add(1)
        await turns()
        assert desk.leader is not None
        desk.leader.high_watermark = 1
        desk.leader.isr = desk.leader.maximal_isr = (1,)
        desk.partition.commit(1)
        assert await first == 1
        assert desk.add(2) == "COORDINATOR_NOT_AVAILABLE", "too few replicas to begin anything"
        assert desk.look() == 1

    play(scene, followers=True)


def test_who_waits_for_a_commit_too_long_is_told() -> None:
    async def scene(desk: Desk) -> None:
        first = desk.add(1)
        await turns()
        desk.now_ms += TIMEOUT_MS
        assert await first == "COORDINATOR_NOT_AVAILABLE"
        seen = desk.look()
        desk.fetched()
        assert await seen == 1, "it was committed after all"

    play(scene, followers=True)


def test_a_leader_no_more_sends_everybody_elsewhere() -> None:
    async def scene(desk: Desk) -> None:
        parked = desk.wait()
        first = desk.add(1)
        await turns()
        undecided = desk.add(2)
        desk.partition.make_leaderless(1)
        assert (await first, await undecided, await parked) == (
            "NOT_COORDINATOR",
            "NOT_COORDINATOR",
            "left: NOT_COORDINATOR",
        )
        assert desk.shard.state == ENDED
        assert desk.look() == "COORDINATOR_NOT_AVAILABLE"
        assert not desk.failed

    play(scene, followers=True)


def test_a_full_disk_loses_nothing() -> None:
    async def scene(desk: Desk) -> None:
        assert await desk.add(1) == 1
        desk.files.room_bytes = 0
        waiting = desk.add(2)
        await turns()
        assert desk.add(4) == "COORDINATOR_NOT_AVAILABLE", "nothing new before that is written"
        desk.files.room_bytes = None
        assert await waiting == 3
        assert await desk.add(8) == 11
        assert desk.batches() == [1, 1, 1]

    play(scene)


def test_a_log_that_cannot_be_written_ends_the_shard(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(desk: Desk) -> None:
        parked = desk.wait()
        desk.files.fail_under("/data")
        assert await desk.add(1) == "COORDINATOR_NOT_AVAILABLE"
        assert await parked == "left: COORDINATOR_NOT_AVAILABLE"
        assert desk.failed == [desk.shard]

    with caplog.at_level(logging.CRITICAL):
        play(scene)


def test_a_commit_that_fails_ends_the_shard() -> None:
    async def scene(desk: Desk) -> None:
        waiting = desk.add(1)
        await turns()
        desk.partition.commit_failed(StorageError("the disk", "is gone"))
        assert await waiting == "COORDINATOR_NOT_AVAILABLE"
        assert desk.failed == [desk.shard]

    play(scene, followers=True)


def test_a_decision_that_fails_leaves_no_half_of_itself() -> None:
    def broken(machine: Any, now_ms: int) -> Any:
        machine.add(1)
        raise KeyError("bug")

    async def scene(desk: Desk) -> None:
        parked = desk.wait()
        assert desk.shard.submit(broken, lambda code: ErrorCode(code).name) == "UNKNOWN_SERVER_ERROR"
        assert await parked == "left: COORDINATOR_NOT_AVAILABLE"
        assert desk.failed == [desk.shard]

    play(scene)


def test_large_outcomes_become_several_batches() -> None:
    async def scene(desk: Desk) -> None:
        desk.settings.encode = lambda number: (b"key", b"x" * (3_000_000 if number == 99 else 400_000))
        desk.restart()
        asked = [desk.add(number) for number in range(5)]
        await asyncio.gather(*asked)
        assert desk.batches() == [2, 2, 1]
        await desk.add(99)
        assert desk.batches() == [2, 2, 1, 1], "larger than a client may write"

    play(scene)


def test_a_load_is_a_replay() -> None:
    files = FaultyFiles()

    async def write(desk: Desk) -> None:
        first, second = desk.add(1), desk.add(10, producer=(7, 0))
        third, fourth = desk.add(100), desk.add(1000, producer=(8, 0))
        await asyncio.gather(first, second, third, fourth)
        assert desk.batches() == [1, 1, 1, 1], "a producer's records are batches of their own"
        for producer_id, commit in ((7, True), (8, False)):
            marker = end_txn_marker(producer_id, 0, commit=commit, coordinator_epoch=0, timestamp_ms=NOW)
            desk.partition.append_internal(marker, NOW)
        nonsense = [(NOW, b"key", b"no number", ()), (NOW, None, b"7", ()), (NOW, b"key", b"5", ())]
        desk.partition.append_internal(build_batch(nonsense), NOW)  # type: ignore[arg-type]

    async def read(desk: Desk) -> None:
        assert desk.shard.state == LOADING
        assert desk.look() == "COORDINATOR_LOAD_IN_PROGRESS"
        desk.shard.event(lambda machine, now_ms: machine.add(1_000_000))
        await desk.load()
        seen = desk.look()
        await turns()
        assert (seen if isinstance(seen, int) else await seen) == 1_000_116

    play(write, files=files)
    play(read, files=files)


def test_what_is_loaded_but_not_committed_is_not_told() -> None:
    files = FaultyFiles()

    async def write(desk: Desk) -> None:
        await desk.add(1)

    async def read(desk: Desk) -> None:
        desk.partition.high_watermark = 0
        await desk.load()
        seen = desk.look()
        await turns()
        assert not seen.done()
        desk.fetched()
        assert await seen == 1

    play(write, files=files)
    play(read, files=files, followers=True)


def test_a_log_that_cannot_be_read_is_told(caplog: pytest.LogCaptureFixture) -> None:
    files = FaultyFiles()

    async def write(desk: Desk) -> None:
        await desk.add(1)

    async def read(desk: Desk) -> None:
        files.fail_under("/data")
        await desk.shard.load()
        assert desk.shard.state == ENDED
        assert desk.failed == [desk.shard]

    play(write, files=files)
    play(read, files=files)


def test_timers_come_when_they_are_due_but_after_what_waited_with_them() -> None:
    async def scene(desk: Desk) -> None:
        assert desk.look() == 0
        machine = desk.shard.machine
        machine.next_wake_ms = desk.now_ms + 5
        desk.look()
        desk.now_ms += 5
        while not machine.ticks:
            await asyncio.sleep(0.001)
        assert machine.ticks == [NOW + 5]
        # The whole process was held up.
        machine.next_wake_ms = desk.now_ms + 5
        desk.look()
        desk.now_ms += LATE_MS + 10
        await asyncio.sleep(0.05)
        assert machine.ticks == [NOW + 5]
        while len(machine.ticks) < 2:
            await asyncio.sleep(0.01)

    play(scene)


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
def test_a_clock_that_jumps_is_told_before_anything_is_asked(
    jump_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    class Patient(Adder):
        def clock_jumped(self, by_ms: int) -> None:
            assert self.next_wake_ms is not None and abs(by_ms - jump_ms) < 50
            self.next_wake_ms += by_ms

    async def scene(desk: Desk) -> None:
        loop = asyncio.get_running_loop()
        began_s, set_by_ms = loop.time(), 0

        def clock() -> int:
            return NOW + set_by_ms + round((loop.time() - began_s) * 1000)

        desk.settings.clock = clock
        desk.settings.make_machine = lambda partition: Patient()
        desk.restart()
        desk.look()
        machine = desk.shard.machine
        machine.next_wake_ms = due_ms = clock() + 100
        desk.look()
        set_by_ms = jump_ms
        desk.look()
        assert machine.ticks == [] and abs(machine.next_wake_ms - due_ms - jump_ms) < 50
        while not machine.ticks:
            await asyncio.sleep(0.01)
        assert machine.ticks[0] >= due_ms + jump_ms - 50

    with caplog.at_level(logging.WARNING):
        play(scene)
    assert "the clock was set" in caplog.text


def test_a_shard_without_records_costs_nothing_until_it_is_asked() -> None:
    async def scene(desk: Desk) -> None:
        assert desk.shard.machine is None
        assert desk.look() == 0
        assert desk.shard.state == ACTIVE

    play(scene)
