"""A disk that is full: nothing is lost, and what frees space goes on."""

from __future__ import annotations

import pytest

from ottla.records.batch import RecordsError
from ottla.records.build import build_batch
from ottla.records.validate import AppendRules, CheckedRecords, check_produce
from ottla.storage.checkpoints import RECOVERY_POINTS, read_offsets
from ottla.storage.errors import DiskFull
from ottla.storage.log_config import LogConfig
from ottla.storage.manager.log_manager import LogManager
from ottla.testing.files import FaultyFiles

NOW = 1_000_000
TOPIC_ID = bytes(15) + b"\1"


def new_files() -> FaultyFiles:
    files = FaultyFiles()
    files.mkdir("/data")
    files.sync_dir("")
    return files


def opened(files: FaultyFiles, **config: object) -> LogManager:
    manager = LogManager(files, ["/data"]).open()
    settings = LogConfig({name.replace("_", "."): value for name, value in config.items()})
    manager.load(lambda topic: settings, NOW)
    manager.open_or_create("t", 0, TOPIC_ID, settings, NOW, is_new=True)
    return manager


def batch(size: int = 40, timestamp: int = NOW) -> bytearray:
    return build_batch([(timestamp, None, bytes(size), ())])


def test_a_truncation_retried_after_a_full_disk_lowers_the_recovery_point_on_disk_too() -> None:
    files = new_files()
    manager = opened(files)
    log = manager.logs["t", 0]
    for _ in range(10):
        log.append_internal(batch(), 0, NOW)
    log.flush(NOW)
    manager.checkpoint().run()
    files.room_bytes = 0
    with pytest.raises(DiskFull):
        log.truncate_to(4)
    assert log.log_end_offset == log.recovery_point == 10  # nothing was truncated
    files.room_bytes = None
    assert log.truncate_to(4)
    assert log.log_end_offset == log.recovery_point == 4
    assert read_offsets(files, "/data", RECOVERY_POINTS)["t", 0] == 4
    # A power cut loses what the new leader's batches were appended with, and must not look like damage.
    log.append_internal(batch(), 1, NOW)
    files.crash()
    manager = LogManager(files, ["/data"]).open()
    manager.load(lambda topic: LogConfig(), NOW)
    assert not manager.corrupt
    assert manager.logs["t", 0].log_end_offset == 4


def test_a_restart_of_the_log_that_finds_no_room_changes_nothing() -> None:
    files = new_files()
    manager = opened(files)
    log = manager.logs["t", 0]
    for _ in range(3):
        log.append_internal(batch(), 0, NOW)
    log.flush(NOW)
    files.room_bytes = -1  # not even for a name
    with pytest.raises(DiskFull):
        log.truncate_fully_and_start_at(50)
    assert len(log.read(0, 1 << 20)) == log.size_bytes
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (0, 3, 3)
    files.room_bytes = None
    log.truncate_fully_and_start_at(50)
    assert log.append_internal(batch(), 1, NOW).first_offset == 50


@pytest.mark.parametrize("room_bytes", [0, -1000])
def test_retention_frees_an_idle_log(room_bytes: int) -> None:
    """Its active segment has expired too, and its deletion needs a new segment."""
    files = new_files()
    manager = opened(files, segment_bytes=250, retention_ms=1000, file_delete_delay_ms=60_000)
    log = manager.logs["t", 0]
    for _ in range(10):
        log.append_internal(batch(), 0, NOW)
    log.flush(NOW)
    active = log.segments.active
    closed = len(log.segments) - 1
    assert closed > 1 and active.size
    later = NOW + 10_000
    files.room_bytes = room_bytes
    if room_bytes < 0:  # snapshots that go with the closed segments free too little for a new segment
        assert log.delete_old_segments(later, 10) == closed
        assert (log.log_start_offset, log.log_end_offset) == (active.base_offset, 10)
        with pytest.raises(DiskFull):
            log.delete_old_segments(later, 10)
        assert log.remove_due(later + 60_000)
        files.room_bytes += 1000
    assert log.delete_old_segments(later + 60_000, 10)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (10, 10, 0)
    files.room_bytes = None
    assert log.append_internal(batch(), 0, NOW).first_offset == 10


def test_missing_indexes_are_rebuilt_in_memory_for_readers_and_for_a_truncation() -> None:
    files = new_files()
    manager = opened(files, segment_bytes=4000, index_interval_bytes=100)
    log = manager.logs["t", 0]
    for _ in range(120):
        log.append_internal(batch(), 0, NOW)
    manager.close(NOW)
    for path in [path for path in files.nodes if path.endswith("index")]:
        files.remove(path)
    manager = LogManager(files, ["/data"]).open()
    manager.load(lambda topic: LogConfig({"segment.bytes": 4000, "index.interval.bytes": 100}), NOW)
    log = manager.logs["t", 0]
    files.room_bytes = 0
    assert len(log.read(1, 1))
    files.room_bytes = 20  # for the checkpoint of the recovery points, not for indexes
    assert log.truncate_to(log.segments[1].base_offset)
    files.room_bytes = None
    assert log.append_internal(batch(), 1, NOW).first_offset == log.log_end_offset - 1


def produced(sequence: int, producer_id: int = 5, **fields: object) -> CheckedRecords:
    data = build_batch(
        [(NOW, None, b"v", ())],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        **fields,  # type: ignore[arg-type]
    )
    return check_produce(data, AppendRules(), NOW)


def test_a_refused_group_costs_no_reload_of_the_producer_state() -> None:
    files = new_files()
    log = opened(files).logs["t", 0]
    for sequence in range(100):
        log.append_as_leader(produced(sequence), 0, NOW)
    state = log.producer_state
    entry = state.entries[5]
    before = (list(entry.batches), entry.last_timestamp, entry.last_data_offset, state.map_end_offset)
    group = [produced(100), produced(101), produced(0, producer_id=6), produced(102)]
    files.room_bytes = 0
    reads = files.reads
    for _ in range(3):
        with pytest.raises(DiskFull):
            log.append_group(group, 0, NOW)
    assert files.reads == reads
    assert log.producer_state is state and list(state.entries) == [5]
    assert before == (list(entry.batches), entry.last_timestamp, entry.last_data_offset, state.map_end_offset)
    assert log.last_stable_offset(100) == 100
    files.room_bytes = None
    results = log.append_group(group, 0, NOW)
    assert [result.first_offset for result in results] == [100, 101, 102, 103]
    assert log.append_as_leader(produced(102), 0, NOW).duplicate
    assert state.entries[6].last_offset == 102


def test_a_batch_that_does_not_continue_the_one_before_it_in_the_group_ends_the_group() -> None:
    log = opened(new_files()).logs["t", 0]
    repeated, gap = [produced(0), produced(1), produced(1)], [produced(2), produced(4)]
    assert len(log.append_group(repeated, 0, NOW)) == 2
    assert log.append_group(repeated[2:], 0, NOW)[0].duplicate
    assert len(log.append_group(gap, 0, NOW)) == 1
    with pytest.raises(RecordsError):
        log.append_group(gap[1:], 0, NOW)
    plain_after_transactional = [produced(3, transactional=True), produced(4)]
    assert len(log.append_group(plain_after_transactional, 0, NOW)) == 1
    with pytest.raises(RecordsError, match="non-transactional"):
        log.append_group(plain_after_transactional[1:], 0, NOW)
