"""Aborted transactions stay aborted after a power failure: the index is synced with its segment."""

from __future__ import annotations

import pytest

from ottla.records.build import build_batch
from ottla.records.control import end_txn_marker
from ottla.storage.log import PartitionLog, open_log
from ottla.storage.log_config import LogConfig
from ottla.testing.files import FaultyFiles

DIRECTORY = "/data/t-0"
NOW_MS = 1_700_000_000_000


def write(log: PartitionLog, number: int, *, flushed: bool = True) -> None:
    """A transaction that is aborted; every append is flushed, as with flush.messages=1."""
    batch = build_batch(
        [(NOW_MS, None, b"%d" % number, ())],
        producer_id=5,
        producer_epoch=0,
        base_sequence=number,
        transactional=True,
    )
    marker = end_txn_marker(5, 0, commit=False, coordinator_epoch=0, timestamp_ms=NOW_MS)
    for each in (batch, marker):
        log.append_internal(each, 0, NOW_MS)
        if flushed:
            log.flush(NOW_MS)


def opened(files: FaultyFiles, recovery_point: int = 0) -> PartitionLog:
    return open_log(files, DIRECTORY, LogConfig(), now_ms=NOW_MS, clean=False, recovery_point=recovery_point)


def aborted(log: PartitionLog) -> list[int]:
    return [each.first_offset for each in log.aborted_transactions(0, log.log_end_offset)]


def power_cut(files: FaultyFiles, log: PartitionLog) -> PartitionLog:
    """The producer snapshots survive: recovery reads nothing before the newest one."""
    for name in files.listdir(DIRECTORY):
        if name.endswith(".snapshot"):
            files.open(f"{DIRECTORY}/{name}").sync()
    files.sync_dir(DIRECTORY)
    files.crash()
    return opened(files, log.recovery_point)


@pytest.fixture
def files() -> FaultyFiles:
    files = FaultyFiles()
    files.mkdir("/data")
    files.sync_dir("")
    return files


def test_segment_synced_to_its_end_before_the_roll(files: FaultyFiles) -> None:
    log = opened(files)
    write(log, 0)
    write(log, 1)
    log.roll(NOW_MS)
    write(log, 2)
    assert aborted(log) == [0, 2, 4]
    assert aborted(power_cut(files, log)) == [0, 2, 4]


def test_segment_read_by_recovery(files: FaultyFiles) -> None:
    """Its index was rewritten, and the recovery point is already at its end."""
    log = opened(files)
    write(log, 0)
    log = power_cut(files, log)
    assert aborted(log) == [0]
    log.roll(NOW_MS)
    write(log, 1)
    assert aborted(power_cut(files, log)) == [0, 2]


def test_segment_without_a_flush(files: FaultyFiles) -> None:
    log = opened(files)
    write(log, 0, flushed=False)
    log.roll(NOW_MS)
    write(log, 1, flushed=False)
    log.flush(NOW_MS)
    assert aborted(power_cut(files, log)) == [0, 2]
