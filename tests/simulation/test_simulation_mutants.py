"""The single-node scenarios catch mutants of the broker."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.api.records import produce_fast_path
from ottla.broker.replicas.flusher import Flusher
from ottla.broker.replicas.partition import Partition
from ottla.storage.log import recovery
from ottla.storage.segments.segment import Segment
from ottla.testing.files import FaultySyncHandle
from tests.support.simulation.mutants import Mutation, assert_caught, show_what_is_not_committed

SEEDS_MAX = 15


def acknowledge_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    after_append = Flusher.after_append

    def hasty(self: Flusher, partition: Partition) -> bool:
        after_append(self, partition)
        return False

    patch.setattr(Flusher, "after_append", hasty)


def commit_more_than_was_flushed(patch: pytest.MonkeyPatch) -> None:
    commit = Partition.commit
    patch.setattr(Partition, "commit", lambda self, offset: commit(self, self.log.log_end_offset))


def leave_the_torn_tail(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Segment, "cut", lambda self, nbytes: None)


def accept_every_checksum(patch: pytest.MonkeyPatch) -> None:
    iter_checked = recovery.iter_checked

    def trusting(*args: Any) -> Any:
        for position, header, _ in iter_checked(*args):
            yield position, header, True

    patch.setattr(recovery, "iter_checked", trusting)


def lose_producer_state_in_recovery(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "replay", lambda *args: None)


def flush_by_the_last_batch_only(patch: pytest.MonkeyPatch) -> None:
    """If the last batch is a duplicate, the new ones before it are not flushed."""
    patch.setattr(produce_fast_path, "max", lambda values: list(values)[-1], raising=False)


def fsync_does_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FaultySyncHandle, "sync", lambda self: None)


@pytest.mark.parametrize(
    ("mutate", "scenario", "expected"),
    [
        (acknowledge_before_the_flush, "power", ("lost", "two values")),
        (commit_more_than_was_flushed, "power", ("lost", "two values")),
        (leave_the_torn_tail, "unflushed", ("no beginning", "checksum", "TooLong", "NodeDoes")),
        (accept_every_checksum, "unflushed", ("no beginning", "unwritten", "checksum", "TooLong")),
        (lose_producer_state_in_recovery, "power", ("surprise", "duplicate")),
        (show_what_is_not_committed, "power", ("lost read", "two values", "lost position", "watermark")),
        (flush_by_the_last_batch_only, "resent", ("lost", "two values")),
        (fsync_does_nothing, "power", ("lost", "NodeDoes")),
    ],
)
def test_a_mutant_is_caught(
    mutate: Mutation, scenario: str, expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    assert_caught(mutate, scenario, range(1, SEEDS_MAX + 1), expected, by_nothing_else=True)
