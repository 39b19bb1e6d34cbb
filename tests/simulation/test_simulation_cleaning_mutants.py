"""Bugs that are planted in compaction, and that the stories of compacted topics must catch."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.records import cleaning
from ottla.storage.cleaning.record_filter import RecordFilter
from ottla.testing.files import FaultyFile
from tests.support.simulation.mutants import Plant, assert_caught

LENGTH = 0.3  # of the trouble: enough to catch each
SEEDS_MAX = 12


def swap_in_what_is_not_on_the_disk(patch: pytest.MonkeyPatch) -> None:
    sync = FaultyFile.sync

    def hasty(self: FaultyFile) -> None:
        if not self.path.endswith(".cleaned"):
            sync(self)

    patch.setattr(FaultyFile, "sync", hasty)


def forget_tombstones_at_once(patch: pytest.MonkeyPatch) -> None:
    begin = RecordFilter.__init__

    def hasty(self: RecordFilter, *args: Any, **options: Any) -> None:
        begin(self, *args, **{**options, "delete_retention_ms": 0})

    patch.setattr(RecordFilter, "__init__", hasty)


def drop_what_is_the_last(patch: pytest.MonkeyPatch) -> None:
    """One off: keys are taken for newer than they are."""
    map_batches = cleaning.map_batches
    patch.setattr(
        cleaning,
        "map_batches",
        lambda keys, buf, pos, end, start, limit: map_batches(keys, _moved(buf, pos), pos, end, start, limit),
    )


def _moved(buf: Any, pos: int) -> bytes:
    """The first batch with another base offset, which its checksum does not cover."""
    data = bytearray(buf)
    if len(data) - pos >= 61:
        base = int.from_bytes(data[pos : pos + 8], "big")
        data[pos : pos + 8] = (base + 1).to_bytes(8, "big")
    return bytes(data)


@pytest.mark.parametrize(
    ("plant", "scenario", "signs"),
    [
        (swap_in_what_is_not_on_the_disk, "cleaning", ("lost", "NodeDoes", "unavailable", "TooLong")),
        (forget_tombstones_at_once, "cleaning", ("tombstone too soon",)),
        (drop_what_is_the_last, "cleaning", ("lost",)),
    ],
)
def test_a_planted_bug_is_caught(
    plant: Plant, scenario: str, signs: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    seeds = range(1, SEEDS_MAX + 1)
    assert_caught(plant, scenario, seeds, signs, length=LENGTH, by_nothing_else=True)
