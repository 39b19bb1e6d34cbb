"""Markers that a shard hands out, and those that others write into its log."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.coordinators.hosted_shard import LOADING, HostedShard
from ottla.machines.outcome import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.records.batch import iter_headers
from ottla.records.control import end_txn_marker
from ottla.storage.errors import DiskFull
from tests.support.broker.adder import NOW, Desk, play, turns

PRODUCER = (7, 0)


def notes_of(desk: Desk) -> list[Any]:
    """What is handed out, and ends, from now on."""
    notes: list[Any] = []
    desk.settings.on_effects = lambda shard, markers: notes.extend(markers)
    desk.settings.on_ended = lambda shard: notes.append("ended")
    return notes


def deciding(*markers: str, records: tuple[int, ...] = (1,)) -> Any:
    outcome: Any = Outcome()
    outcome.records += records
    outcome.effects += markers
    outcome.reply = "done"
    return outcome


def marker(commit: bool = True) -> bytearray:
    return end_txn_marker(*PRODUCER, commit=commit, coordinator_epoch=3, timestamp_ms=NOW)


def kinds(desk: Desk) -> list[str]:
    data = desk.log.read(0, 1 << 30).read()
    return ["marker" if header.is_control else "data" for _, header in iter_headers(data)]


def test_markers_are_handed_out_when_their_decision_is_committed() -> None:
    async def scene(desk: Desk) -> None:
        notes = notes_of(desk)
        answer = desk.shard.submit(lambda *_: deciding("first"), str)
        await turns()
        assert notes == [] and not answer.done()
        desk.shard.event(lambda *_: deciding("second", records=()))
        await turns()
        assert notes == [], "it may rest on what is not committed"
        desk.fetched()
        assert await answer == "done"
        assert notes == ["first", "second"]
        desk.shard.submit(lambda *_: deciding("third"), str)
        await turns()
        desk.shard.end(ErrorCode.NOT_COORDINATOR)
        desk.fetched()
        await turns()
        assert notes == ["first", "second", "ended"], "who decided it is not asked any more"

    play(scene, followers=True)


def test_what_was_loaded_is_committed_before_its_markers_go_out() -> None:
    async def scene(desk: Desk) -> None:
        desk.add(1)
        await turns()
        desk.shard.end(ErrorCode.NOT_COORDINATOR)
        notes = notes_of(desk)
        desk.shard = HostedShard(desk.partition, desk.settings)
        assert desk.shard.state == LOADING
        await desk.load()
        desk.shard.event(lambda *_: deciding("half done", records=()))
        await turns()
        assert notes == []
        desk.fetched()
        await turns()
        assert notes == ["half done"]
        notes.clear()

    play(scene, followers=True)


def test_a_marker_comes_behind_what_was_decided_before_it() -> None:
    async def scene(desk: Desk) -> None:
        desk.add(5, producer=PRODUCER)
        desk.shard.append_marker(marker(), 7, True)
        desk.add(6)
        await turns()
        assert kinds(desk) == ["data", "marker", "data"]
        entry = desk.log.producer_state.entries[7]
        assert (entry.current_txn_first_offset, entry.coordinator_epoch) == (-1, 3)

    play(scene)


@pytest.mark.parametrize("commit", [True, False])
def test_the_machine_learns_of_the_marker_and_others_when_it_is_committed(commit: bool) -> None:
    async def scene(desk: Desk) -> None:
        assert desk.look() == 0
        desk.shard.machine.pending[7] = 5
        desk.shard.append_marker(marker(commit), 7, commit)
        answer = desk.look()
        await turns()
        assert not answer.done()
        desk.fetched()
        assert await answer == (5 if commit else 0)

    play(scene, followers=True)


def test_a_shard_that_is_loading_finds_the_marker_in_its_log() -> None:
    async def scene(desk: Desk) -> None:
        await desk.add(5, producer=PRODUCER)
        desk.shard.end(ErrorCode.NOT_COORDINATOR)
        desk.shard = HostedShard(desk.partition, desk.settings)
        desk.shard.append_marker(marker(), 7, True)
        await desk.load()
        assert desk.look() == 5
        assert desk.shard.machine.pending == {}

    play(scene)


def test_no_marker_overtakes_what_a_full_disk_holds_up() -> None:
    async def scene(desk: Desk) -> None:
        assert await desk.add(1) == 1
        desk.files.room_bytes = 0
        waiting = desk.add(5, producer=PRODUCER)
        with pytest.raises(DiskFull):
            desk.shard.append_marker(marker(), 7, True)
        desk.files.room_bytes = None
        await waiting
        desk.shard.append_marker(marker(), 7, True)
        assert kinds(desk) == ["data", "data", "marker"]

    play(scene)
