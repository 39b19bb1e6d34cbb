"""Leader epochs: assignment, OffsetForLeaderEpoch, truncation at both ends, the checkpoint file."""

from __future__ import annotations

import pytest

from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.testing.files import FaultyFiles


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    made = LeaderEpochs()
    for epoch, start in entries:
        made.assign(epoch, start)
    return made


def test_an_epoch_is_assigned_once() -> None:
    made = epochs((1, 0), (1, 5), (3, 10), (3, 12))
    assert made.entries() == [(1, 0), (3, 10)]


def test_a_later_assignment_replaces_contradicting_entries() -> None:
    assert epochs((1, 0), (2, 10), (3, 10)).entries() == [(1, 0), (3, 10)]
    assert epochs((1, 0), (4, 10), (3, 20)).entries() == [(1, 0), (3, 20)]
    assert epochs((1, 5), (1, 3)).entries() == [(1, 3)]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),
        (1, (1, 20)),
        (2, (1, 20)),
        (3, (3, 30)),
        (5, (5, 99)),
        (6, (-1, -1)),
    ],
)
def test_end_offset_for(asked: int, answer: tuple[int, int]) -> None:
    assert epochs((1, 10), (3, 20), (5, 30)).end_offset_for(asked, 99) == answer


def test_without_epochs_there_is_no_result() -> None:
    assert LeaderEpochs().end_offset_for(0, 10) == (-1, -1)
    assert LeaderEpochs().latest_epoch == -1


def test_epoch_for_offset() -> None:
    made = epochs((1, 10), (3, 20))
    assert [made.epoch_for_offset(offset) for offset in (9, 10, 19, 20, 50)] == [-1, 1, 1, 3, 3]


def test_truncation() -> None:
    made = epochs((1, 0), (2, 10), (3, 20))
    made.truncate_from_end(20)
    assert made.entries() == [(1, 0), (2, 10)]
    made.truncate_from_start(15)
    assert made.entries() == [(2, 15)]
    made.truncate_from_start(15)
    made.truncate_from_start(3)
    assert made.entries() == [(2, 15)]
    made.truncate_from_end(0)
    assert made.entries() == []


def test_the_file() -> None:
    files = FaultyFiles()
    files.mkdir("/d")
    made = epochs((0, 0), (7, 1234))
    assert made.dirty
    made.save(files, "/d")
    assert not made.dirty
    assert files.read_bytes("/d/leader-epoch-checkpoint") == b"0\n2\n0 0\n7 1234\n"
    again = LeaderEpochs()
    assert again.load(files, "/d")
    assert again.entries() == made.entries()
    assert not again.dirty


@pytest.mark.parametrize(
    "data", [b"", b"0\n1\n", b"1\n0\n", b"0\n1\nx y\n", b"0\n2\n5 0\n3 10\n", b"0\n1\n1 2 3\n", b"\xff"]
)
def test_an_invalid_file_is_reported(data: bytes) -> None:
    files = FaultyFiles()
    files.mkdir("/d")
    files.write_atomic("/d/leader-epoch-checkpoint", data)
    assert not LeaderEpochs().load(files, "/d")


def test_an_epoch_without_records_is_replaced_by_an_older_one() -> None:
    """A leader of epoch 2 without a record follows the leader of epoch 1 again: epoch 1 still begins at 0."""
    made = epochs((1, 0), (2, 3), (1, 3))
    assert made.entries() == [(1, 0)]
    assert made.end_offset_for(1, 7) == (1, 7)
