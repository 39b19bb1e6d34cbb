"""Markers that a shard sends, and markers that others write to its log."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.coordinators.hosted_shard import LOADING, HostedShard
from ottla.machines.outcome import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.records.batch import iter_headers
from ottla.records.control import end_txn_marker
from ottla.storage.errors import DiskFull
from tests.support.broker.adder import NOW, Harness, play, turns

PRODUCER = (7, 0)


def notes_of(harness: Harness) -> list[Any]:
    """Record effects and ends from now on."""
    notes: list[Any] = []
    harness.settings.on_effects = lambda shard, markers: notes.extend(markers)
    harness.settings.on_ended = lambda shard: notes.append("ended")
    return notes


def deciding(*markers: str, records: tuple[int, ...] = (1,)) -> Any:
    outcome: Any = Outcome()
    outcome.records += records
    outcome.effects += markers
    outcome.reply = "done"
    return outcome


def marker(commit: bool = True) -> bytearray:
    return end_txn_marker(*PRODUCER, commit=commit, coordinator_epoch=3, timestamp_ms=NOW)


def kinds(harness: Harness) -> list[str]:
    data = harness.log.read(0, 1 << 30).read()
    return ["marker" if header.is_control else "data" for _, header in iter_headers(data)]


def test_markers_are_sent_when_their_decision_is_committed() -> None:
    async def scenario(harness: Harness) -> None:
        notes = notes_of(harness)
        answer = harness.shard.submit(lambda *_: deciding("first"), str)
        await turns()
        assert notes == [] and not answer.done()
        harness.shard.event(lambda *_: deciding("second", records=()))
        await turns()
        assert notes == [], "it may depend on uncommitted records"
        harness.fetched()
        assert await answer == "done"
        assert notes == ["first", "second"]
        harness.shard.submit(lambda *_: deciding("third"), str)
        await turns()
        harness.shard.end(ErrorCode.NOT_COORDINATOR)
        harness.fetched()
        await turns()
        assert notes == ["first", "second", "ended"], "the shard that decided it has ended"

    play(scenario, followers=True)


def test_loaded_state_is_committed_before_its_markers_are_sent() -> None:
    async def scenario(harness: Harness) -> None:
        harness.add(1)
        await turns()
        harness.shard.end(ErrorCode.NOT_COORDINATOR)
        notes = notes_of(harness)
        harness.shard = HostedShard(harness.partition, harness.settings)
        assert harness.shard.state == LOADING
        await harness.load()
        harness.shard.event(lambda *_: deciding("half done", records=()))
        await turns()
        assert notes == []
        harness.fetched()
        await turns()
        assert notes == ["half done"]
        notes.clear()

    play(scenario, followers=True)


def test_a_marker_is_appended_after_earlier_decisions() -> None:
    async def scenario(harness: Harness) -> None:
        harness.add(5, producer=PRODUCER)
        harness.shard.append_marker(marker(), 7, True)
        harness.add(6)
        await turns()
        assert kinds(harness) == ["data", "marker", "data"]
        entry = harness.log.producer_state.entries[7]
        assert (entry.current_txn_first_offset, entry.coordinator_epoch) == (-1, 3)

    play(scenario)


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_takes_effect_for_readers_when_it_is_committed(commit: bool) -> None:
    async def scenario(harness: Harness) -> None:
        assert harness.look() == 0
        harness.shard.machine.pending[7] = 5
        harness.shard.append_marker(marker(commit), 7, commit)
        answer = harness.look()
        await turns()
        assert not answer.done()
        harness.fetched()
        assert await answer == (5 if commit else 0)

    play(scenario, followers=True)


def test_a_shard_that_is_loading_finds_the_marker_in_its_log() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.add(5, producer=PRODUCER)
        harness.shard.end(ErrorCode.NOT_COORDINATOR)
        harness.shard = HostedShard(harness.partition, harness.settings)
        harness.shard.append_marker(marker(), 7, True)
        await harness.load()
        assert harness.look() == 5
        assert harness.shard.machine.pending == {}

    play(scenario)


def test_no_marker_overtakes_decisions_that_wait_for_disk_space() -> None:
    async def scenario(harness: Harness) -> None:
        assert await harness.add(1) == 1
        harness.files.room_bytes = 0
        waiting = harness.add(5, producer=PRODUCER)
        with pytest.raises(DiskFull):
            harness.shard.append_marker(marker(), 7, True)
        harness.files.room_bytes = None
        await waiting
        harness.shard.append_marker(marker(), 7, True)
        assert kinds(harness) == ["data", "data", "marker"]

    play(scenario)
