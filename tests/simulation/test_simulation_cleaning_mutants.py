"""The compaction scenarios catch mutants of the log cleaner."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.records import cleaning
from ottla.storage.cleaning.record_filter import RecordFilter
from simulator.runtime.files import SimulatedFile
from tests.support.simulation.mutants import Mutation, assert_caught

LENGTH = 0.3  # of the trouble: enough to catch each
SEEDS_MAX = 12


def swap_in_unsynced_segments(patch: pytest.MonkeyPatch) -> None:
    sync = SimulatedFile.sync

    def hasty(self: SimulatedFile) -> None:
        if not self.path.endswith(".cleaned"):
            sync(self)

    patch.setattr(SimulatedFile, "sync", hasty)


def drop_tombstones_at_once(patch: pytest.MonkeyPatch) -> None:
    begin = RecordFilter.__init__

    def hasty(self: RecordFilter, *args: Any, **options: Any) -> None:
        begin(self, *args, **{**options, "delete_retention_ms": 0})

    patch.setattr(RecordFilter, "__init__", hasty)


def drop_the_last_record_of_a_key(patch: pytest.MonkeyPatch) -> None:
    """Off by one: keys are considered newer than they are."""
    map_batches = cleaning.map_batches
    patch.setattr(
        cleaning,
        "map_batches",
        lambda keys, buf, pos, end, start, limit: map_batches(keys, _moved(buf, pos), pos, end, start, limit),
    )


def _moved(buf: Any, pos: int) -> bytes:
    """Change the base offset of the first batch, which the checksum does not cover."""
    data = bytearray(buf)
    if len(data) - pos >= 61:
        base = int.from_bytes(data[pos : pos + 8], "big")
        data[pos : pos + 8] = (base + 1).to_bytes(8, "big")
    return bytes(data)


@pytest.mark.parametrize(
    ("mutate", "scenario", "expected"),
    [
        (swap_in_unsynced_segments, "cleaning", ("lost", "NodeDoes", "unavailable", "TooLong")),
        (drop_tombstones_at_once, "cleaning", ("tombstone too soon",)),
        (drop_the_last_record_of_a_key, "cleaning", ("lost",)),
    ],
)
def test_a_mutant_is_caught(
    mutate: Mutation, scenario: str, expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    seeds = range(1, SEEDS_MAX + 1)
    assert_caught(mutate, scenario, seeds, expected, length=LENGTH, by_nothing_else=True)
