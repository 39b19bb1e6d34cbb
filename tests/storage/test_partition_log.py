"""PartitionLog beyond the model test: producers, transactions, rolls, flushes, failures."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.records.batch import CorruptBatch, RecordsError, iter_headers
from ottla.records.build import build_batch
from ottla.records.control import end_txn_marker
from ottla.records.validate import AppendRules, check_produce
from ottla.storage.errors import (
    DiskFull,
    OffsetOutOfRange,
    StorageError,
    StorageOffline,
    UnexpectedAppendOffset,
)
from ottla.storage.index.txn_index import AbortedTransaction
from ottla.storage.log import AppendResult, PartitionLog, open_log
from ottla.storage.log_config import LogConfig
from ottla.testing.files import FaultyFiles

NOW = 1_000_000
DIRECTORY = "/data/some-topic-3"


@pytest.fixture
def files() -> FaultyFiles:
    made = FaultyFiles()
    made.mkdir("/data")
    made.sync_dir("")
    return made


def open_test_log(
    files: FaultyFiles, configs: dict[str, object] | None = None, **how: object
) -> PartitionLog:
    return open_log(files, DIRECTORY, LogConfig(configs), now_ms=NOW, **how)  # type: ignore[arg-type]


def batch(count: int = 1, *, timestamp: int = NOW, size: int = 50, **fields: object) -> bytearray:
    records = [(timestamp + i, None, b"v" * size, ()) for i in range(count)]
    return build_batch(records, **fields)  # type: ignore[arg-type]


def produce(log: PartitionLog, data: bytearray, epoch: int = 0, **rules: object) -> AppendResult:
    return log.append_as_leader(check_produce(data, AppendRules(**rules), NOW), epoch, NOW)  # type: ignore[arg-type]


def offsets(data: bytes) -> list[int]:
    return [header.base_offset for _, header in iter_headers(data)]


def test_topic_and_partition_from_the_directory_name(files: FaultyFiles) -> None:
    log = open_test_log(files)
    assert (log.topic, log.partition) == ("some-topic", 3)
    log.set_topic_id(bytes(range(16)))
    assert open_test_log(files).topic_id == bytes(range(16))


def test_the_leader_writes_offsets_in_place(files: FaultyFiles) -> None:
    log = open_test_log(files)
    produce(log, batch(3), epoch=4)
    data = batch(2)
    assert produce(log, data, epoch=5) == AppendResult(3, 4, -1, False)
    stored = log.read(3, 1 << 20).read()
    assert stored == bytes(data), "the buffer was changed in place"
    ((_, header),) = iter_headers(stored)
    assert (header.base_offset, header.leader_epoch) == (3, 5)
    assert log.leader_epochs.entries() == [(4, 0), (5, 3)]


def test_log_append_time_is_reported(files: FaultyFiles) -> None:
    log = open_test_log(files)
    assert produce(log, batch(), timestamp_type="LogAppendTime").log_append_time_ms == NOW


def test_reads_outside_the_log(files: FaultyFiles) -> None:
    log = open_test_log(files)
    produce(log, batch(3))
    assert len(log.read(3, 100)) == 0
    for offset in (-1, 4):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100)
    log.advance_log_start_offset(2)
    with pytest.raises(OffsetOutOfRange):
        log.read(1, 100)
    assert offsets(log.read(2, 100).read()) == [0], "the batch that contains the offset is returned whole"
    with pytest.raises(OffsetOutOfRange):
        log.advance_log_start_offset(4)


def test_a_truncation_drops_cached_positions(files: FaultyFiles) -> None:
    log = open_test_log(files)
    for _ in range(6):
        produce(log, batch(2))
    assert offsets(log.read(0, len(batch(2)) * 4).read()) == [0, 2, 4, 6]
    log.truncate_to(4)
    for _ in range(4):
        produce(log, batch(2, size=9))
    assert offsets(log.read(8, 1 << 20).read()) == [8, 10]


def test_a_sequential_reader_does_not_search(files: FaultyFiles) -> None:
    log = open_test_log(files, {"index.interval.bytes": 100})
    for _ in range(50):
        produce(log, batch())
    log.read(0, 1 << 20)
    for _ in range(5):
        end = log.log_end_offset
        produce(log, batch())
        before = files.reads
        assert len(log.read(end, 1 << 20)) == len(batch())
        assert files.reads == before


# -- producers -----------------------------------------------------------------------------------------------


def test_a_duplicate_gets_the_original_result(files: FaultyFiles) -> None:
    log = open_test_log(files)
    produce(log, batch(4))
    first = produce(log, batch(2, producer_id=9, producer_epoch=0, base_sequence=0))
    size = log.size_bytes
    again = produce(log, batch(2, producer_id=9, producer_epoch=0, base_sequence=0))
    assert again == first._replace(duplicate=True)
    assert (log.size_bytes, log.log_end_offset) == (size, 6)
    with pytest.raises(RecordsError) as caught:
        produce(log, batch(1, producer_id=9, producer_epoch=0, base_sequence=5))
    assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 6


def test_an_unknown_producer_may_start_at_any_sequence_except_in_a_new_log(files: FaultyFiles) -> None:
    log = open_test_log(files)
    later = batch(2, producer_id=9, producer_epoch=0, base_sequence=17)
    with pytest.raises(RecordsError, match="starts with sequence 17") as caught:
        produce(log, later)
    assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    produce(log, batch(4))
    log.advance_log_start_offset(4)
    assert produce(log, later).first_offset == 4


def test_two_batches_of_one_producer_in_one_append(files: FaultyFiles) -> None:
    log = open_test_log(files)
    one = batch(2, producer_id=9, producer_epoch=0, base_sequence=0)
    two = batch(2, producer_id=9, producer_epoch=0, base_sequence=2)
    wrong = batch(2, producer_id=9, producer_epoch=0, base_sequence=3)
    with pytest.raises(RecordsError):
        log.append_internal(one + wrong, 0, NOW)
    log.append_internal(one + two, 0, NOW)
    assert log.producer_state.entries[9].last_sequence == 3


@pytest.mark.parametrize("stop", ["clean", "crash", "snapshot lost"])
def test_producer_state_survives_a_restart(files: FaultyFiles, stop: str) -> None:
    log = open_test_log(files, {"segment.bytes": 400})
    for sequence in range(10):
        produce(log, batch(1, producer_id=9, producer_epoch=1, base_sequence=sequence))
    if stop == "crash":
        log.flush(NOW)
        files.crash()
        log = open_test_log(files, recovery_point=log.recovery_point)
    else:
        log.close(NOW)
        if stop == "snapshot lost":
            for path in [path for path in files.nodes if path.endswith(".snapshot")]:
                files.remove(path)
        log = open_test_log(files, clean=True, recovery_point=10)
    assert produce(log, batch(1, producer_id=9, producer_epoch=1, base_sequence=9)).duplicate
    with pytest.raises(RecordsError):
        produce(log, batch(1, producer_id=9, producer_epoch=1, base_sequence=11))
    assert produce(log, batch(1, producer_id=9, producer_epoch=1, base_sequence=10)).first_offset == 10


def test_truncation_reverts_producer_state(files: FaultyFiles) -> None:
    log = open_test_log(files, {"segment.bytes": 400})
    for sequence in range(10):
        produce(log, batch(1, producer_id=9, producer_epoch=1, base_sequence=sequence))
    log.truncate_to(4)
    assert produce(log, batch(1, producer_id=9, producer_epoch=1, base_sequence=4)).first_offset == 4


def test_snapshots_are_kept_for_segments_only(files: FaultyFiles) -> None:
    log = open_test_log(files, {"segment.bytes": 400})
    for turn in range(4):
        produce(log, batch())
        log.close(NOW)
        log = open_test_log(files, clean=True, recovery_point=turn + 1)
    snapshots = sorted(path for path in files.nodes if path.endswith(".snapshot"))
    bases = [segment.base_offset for segment in log.segments]
    assert [int(path[-29:-9]) for path in snapshots] == [*bases[1:], 4]


# -- transactions --------------------------------------------------------------------------------------------


def transact(log: PartitionLog, pid: int, sequence: int) -> None:
    produce(log, batch(2, producer_id=pid, producer_epoch=0, base_sequence=sequence, transactional=True))


def end(log: PartitionLog, pid: int, *, commit: bool) -> None:
    marker = end_txn_marker(
        commit=commit, producer_id=pid, producer_epoch=0, coordinator_epoch=1, timestamp_ms=NOW
    )
    log.append_internal(marker, 0, NOW)


def play_transactions(log: PartitionLog) -> None:
    transact(log, 1, 0)  # 0, 1
    transact(log, 2, 0)  # 2, 3
    end(log, 1, commit=False)  # 4
    transact(log, 1, 2)  # 5, 6
    end(log, 2, commit=True)  # 7
    end(log, 1, commit=False)  # 8
    transact(log, 3, 0)  # 9, 10


ABORTED = [AbortedTransaction(1, 0, 4, 2), AbortedTransaction(1, 5, 8, 9)]


@pytest.mark.parametrize("how", ["as it runs", "clean", "recovered", "recovered from the middle"])
def test_transactions(files: FaultyFiles, how: str) -> None:
    configs: dict[str, object] = {"segment.bytes": 500}
    log = open_test_log(files, configs)
    play_transactions(log)
    assert len(log.segments) > 1
    if how == "clean":
        log.close(NOW)
        log = open_test_log(files, configs, clean=True, recovery_point=11)
    elif how != "as it runs":
        log.flush(NOW)
        files.crash()
        log = open_test_log(files, configs, recovery_point=0 if how == "recovered" else 6)
    assert log.last_stable_offset(11) == 9
    assert log.aborted_transactions(0, 11) == ABORTED
    assert log.aborted_transactions(5, 11) == ABORTED[1:]
    assert log.aborted_transactions(0, 2) == ABORTED[:1]
    assert log.aborted_transactions(9, 11) == []
    end(log, 3, commit=False)
    assert log.last_stable_offset(12) == 12
    assert log.aborted_transactions(9, 12) == [AbortedTransaction(3, 9, 11, 12)]
    log.truncate_to(8)
    assert log.aborted_transactions(0, 8) == ABORTED[:1]
    assert log.last_stable_offset(8) == 5


def test_a_transaction_whose_beginning_was_deleted_is_open_from_the_log_start(files: FaultyFiles) -> None:
    """Readers could not use a last stable offset below the log start offset."""
    log = open_test_log(files, {"segment.bytes": 500})
    play_transactions(log)
    assert log.last_stable_offset(11) == 9
    log.advance_log_start_offset(10)
    assert log.last_stable_offset(11) == 10
    assert log.last_stable_offset(9) == 9, "never above the high watermark"
    end(log, 3, commit=True)
    assert log.last_stable_offset(12) == 12


# -- followers -----------------------------------------------------------------------------------------------


def test_append_as_follower(files: FaultyFiles) -> None:
    leader = open_test_log(files)
    play_transactions(leader)
    produce(leader, batch(), epoch=3)
    data = leader.read(0, 1 << 20).read()
    follower = open_log(files, "/data/copy-0", LogConfig(), now_ms=NOW)
    assert follower.append_as_follower(data[:-7], NOW).last_offset == 10
    assert follower.append_as_follower(leader.read(11, 1 << 20).read(), NOW).first_offset == 11
    assert follower.read(0, 1 << 20).read() == data
    assert follower.leader_epochs.entries() == [(0, 0), (3, 11)]
    assert follower.aborted_transactions(0, 12) == ABORTED
    assert follower.append_as_follower(b"", NOW).first_offset == 12
    with pytest.raises(UnexpectedAppendOffset):
        follower.append_as_follower(data, NOW)
    damaged = bytearray(batch(base_offset=12))
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch):
        follower.append_as_follower(damaged, NOW)
    assert follower.append_as_follower(batch(base_offset=50), NOW).first_offset == 50
    assert follower.log_end_offset == 51


def test_an_empty_follower_starts_inside_of_a_batch(files: FaultyFiles) -> None:
    """DeleteRecords has moved the leader's log start there; the leader sends whole batches."""
    leader = open_test_log(files)
    for count in (3, 5, 2):
        produce(leader, batch(count), epoch=3)
    leader.advance_log_start_offset(5)
    follower = open_log(files, "/data/copy-0", LogConfig(), now_ms=NOW)
    follower.truncate_fully_and_start_at(5)
    data = leader.read(5, 1 << 20).read()
    damaged = bytearray(data)
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch):
        follower.append_as_follower(damaged, NOW)
    assert (follower.log_start_offset, follower.log_end_offset) == (5, 5)
    with pytest.raises(UnexpectedAppendOffset):
        follower.append_as_follower(batch(5, base_offset=0), NOW)  # ends before the log starts
    assert follower.append_as_follower(data, NOW).last_offset == 9
    assert (follower.log_start_offset, follower.log_end_offset) == (5, 10)
    assert follower.read(5, 1 << 20).read() == data
    assert follower.leader_epochs.entries() == leader.leader_epochs.entries()
    with pytest.raises(UnexpectedAppendOffset):
        follower.append_as_follower(data, NOW)  # no longer empty
    follower.flush(NOW)
    for start, expected in ((5, 5), (0, 3)):  # the checkpoint of the log start may be an old one
        again = open_log(
            files, "/data/copy-0", LogConfig(), now_ms=NOW, recovery_point=0, log_start_offset=start
        )
        assert (again.log_start_offset, again.log_end_offset) == (expected, 10)


def test_relative_offsets_beyond_int32_roll_the_segment(files: FaultyFiles) -> None:
    follower = open_test_log(files)
    follower.append_as_follower(batch(base_offset=3 << 31), NOW)
    follower.append_as_follower(batch(base_offset=5 << 31), NOW)
    assert [segment.base_offset for segment in follower.segments] == [0, 3 << 31, 5 << 31]
    assert offsets(follower.read(0, 1000).read()) == [3 << 31]
    assert offsets(follower.read((3 << 31) + 1, 1000).read()) == [5 << 31]


# -- rolling and retention -----------------------------------------------------------------------------------


def test_roll_by_size(files: FaultyFiles) -> None:
    size = len(batch())
    log = open_test_log(files, {"segment.bytes": size * 3})
    for _ in range(7):
        produce(log, batch())
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]


def test_roll_by_age_of_the_first_record(files: FaultyFiles) -> None:
    log = open_test_log(files, {"segment.ms": 1000})
    for age in (0, 1000, 1001, 1500, 2002):
        log.append_internal(batch(timestamp=NOW + age), 0, NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    log.close(NOW)
    log = open_test_log(files, {"segment.ms": 1000}, clean=True, recovery_point=5)
    log.append_internal(batch(timestamp=NOW + 3002), 0, NOW)
    log.append_internal(batch(timestamp=NOW + 3003), 0, NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6]


def test_roll_by_a_full_index(files: FaultyFiles) -> None:
    log = open_test_log(files, {"segment.index.bytes": 48, "index.interval.bytes": 1})
    for i in range(12):
        produce(log, batch(timestamp=NOW + i))
    assert len(log.segments) > 1
    assert all(len(segment.time_index) * 12 <= 48 for segment in log.segments)
    assert all(len(segment.offset_index) * 8 <= 48 for segment in log.segments)


def test_jitter_only_shortens_segment_ms(files: FaultyFiles) -> None:
    log = open_test_log(files, {"segment.ms": 1000, "segment.jitter.ms": 500})
    log.append_internal(batch(timestamp=NOW), 0, NOW)
    log.append_internal(batch(timestamp=NOW + 499), 0, NOW)
    assert len(log.segments) == 1
    log.append_internal(batch(timestamp=NOW + 1001), 0, NOW)
    assert len(log.segments) == 2


def segments_of(files: FaultyFiles, configs: dict[str, object]) -> PartitionLog:
    """Five segments of two batches, one hour apart, offsets 0 to 9."""
    log = open_test_log(files, {"segment.bytes": len(batch()) * 2, **configs})
    for i in range(10):
        log.append_internal(batch(timestamp=NOW + i // 2 * 3_600_000), 0, NOW)
    assert len(log.segments) == 5
    return log


def test_retention_by_time(files: FaultyFiles) -> None:
    log = segments_of(files, {"retention.ms": 3_600_000})
    now = NOW + 4 * 3_600_000
    assert log.delete_old_segments(now, 5) == 2, "not past the high watermark"
    assert log.delete_old_segments(now, 10) == 1
    assert log.log_start_offset == 6
    assert log.leader_epochs.entries() == [(0, 6)]
    deleted = [path for path in files.nodes if path.endswith(".deleted")]
    assert len(deleted) >= 9
    assert log.remove_due(now + 59_999) == 0
    assert log.remove_due(now + 60_000) == len(deleted)
    assert not [path for path in files.nodes if path.endswith(".deleted")]


def test_retention_may_delete_the_active_segment(files: FaultyFiles) -> None:
    log = segments_of(files, {"retention.ms": 1})
    assert log.delete_old_segments(NOW + (1 << 40), 10) == 5
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (10, 10, 0)
    assert log.delete_old_segments(NOW + (1 << 41), 10) == 0
    log.close(NOW)
    log = open_test_log(files, clean=True, recovery_point=10)
    assert (log.log_start_offset, log.log_end_offset) == (10, 10)
    assert produce(log, batch()).first_offset == 10


def test_retention_by_size(files: FaultyFiles) -> None:
    size = len(batch())
    log = segments_of(files, {"retention.ms": -1, "retention.bytes": size * 5})
    assert log.delete_old_segments(NOW, 10) == 2
    assert log.log_start_offset == 4
    log.config = LogConfig({"retention.ms": -1, "retention.bytes": 0})
    assert log.delete_old_segments(NOW, 10) == 3


def test_retention_of_compacted_topics_deletes_only_below_the_log_start(files: FaultyFiles) -> None:
    log = segments_of(files, {"cleanup.policy": "compact", "retention.ms": 1, "retention.bytes": 1})
    assert log.delete_old_segments(NOW + (1 << 40), 10) == 0
    log.advance_log_start_offset(5)
    assert log.delete_old_segments(NOW, 10) == 2
    assert log.segments[0].base_offset == 4


def test_a_region_can_be_sent_after_its_segment_was_deleted(files: FaultyFiles) -> None:
    log = segments_of(files, {"retention.ms": 1})
    region = log.read(0, 1 << 20)
    log.delete_old_segments(NOW + (1 << 40), 10)
    assert offsets(region.read()) == [0, 1]


# -- durability and failures ---------------------------------------------------------------------------------


def test_appends_during_a_flush(files: FaultyFiles) -> None:
    log = open_test_log(files)
    produce(log, batch(2))
    assert log.unflushed_messages == 2
    job = log.begin_flush()
    produce(log, batch(3))
    job.run()
    log.finish_flush(job, NOW + 5)
    assert (log.recovery_point, log.unflushed_messages, log.durability.last_flush_ms) == (2, 3, NOW + 5)
    assert not files.handles[0].closed or all(handle.closed for handle in files.handles)


def test_a_truncation_during_a_flush(files: FaultyFiles) -> None:
    log = open_test_log(files)
    produce(log, batch(2))
    produce(log, batch(2))
    job = log.begin_flush()
    log.truncate_to(2)
    produce(log, batch(2))
    job.run()
    log.finish_flush(job)
    assert log.recovery_point <= 2


def test_wants_flush(files: FaultyFiles) -> None:
    log = open_test_log(files, {"flush.messages": 3, "flush.ms": 1000, "segment.bytes": 10_000})
    assert not log.wants_flush(NOW + 5000)
    produce(log, batch(2))
    assert not log.wants_flush(NOW + 999)
    assert log.wants_flush(NOW + 1000)
    produce(log, batch(1))
    assert log.wants_flush(NOW)
    log.flush(NOW)
    produce(log, batch(1))
    log.roll(NOW)
    assert log.wants_flush(NOW), "a closed segment is flushed"


def test_appends_fail_on_a_full_disk_and_resume(files: FaultyFiles) -> None:
    log = open_test_log(files, {"segment.bytes": 400})
    produce(log, batch())
    for room in range(0, 140, 7):
        files.room_bytes = room
        before = log.log_end_offset
        with pytest.raises(DiskFull) as caught:
            for _ in range(4):
                produce(log, batch())
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        files.room_bytes = None
        assert log.log_dir.error is None
        assert offsets(log.read(before, 1 << 20, log.log_end_offset).read() or batch(base_offset=before))
        produce(log, batch())
    end = log.log_end_offset
    log.close(NOW)
    log = open_test_log(files, clean=True, recovery_point=end)
    found: list[int] = []
    while len(found) < end:
        found += offsets(log.read(len(found), 1 << 20).read())
    assert found == list(range(end))


def test_a_failing_disk_takes_the_log_offline(files: FaultyFiles) -> None:
    log = open_test_log(files)
    produce(log, batch())
    files.fail_under("/data")
    with pytest.raises(StorageOffline) as caught:
        produce(log, batch())
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    files.heal()
    for attempt in (lambda: produce(log, batch()), lambda: log.read(0, 10), log.begin_flush):
        with pytest.raises(StorageOffline, match="Input/output error"):
            attempt()


def test_a_failed_sync_takes_the_log_offline(files: FaultyFiles) -> None:
    log = open_test_log(files)
    produce(log, batch())
    files.fail_under("/data", only_syncs=True)
    job = log.begin_flush()
    job.run()
    with pytest.raises(StorageError):
        log.finish_flush(job, NOW)
    assert log.recovery_point == 0
    with pytest.raises(StorageOffline):
        produce(log, batch())


def test_a_closed_log_rejects_appends(files: FaultyFiles) -> None:
    log = open_test_log(files)
    log.close(NOW)
    log.close(NOW)
    with pytest.raises(StorageOffline):
        produce(log, batch())


def test_truncate_fully(files: FaultyFiles) -> None:
    log = segments_of(files, {})
    log.truncate_fully_and_start_at(500)
    assert (log.log_start_offset, log.log_end_offset, log.leader_epochs.entries()) == (500, 500, [])
    assert produce(log, batch(), epoch=2).first_offset == 500
    log.close(NOW)
    log = open_test_log(files, clean=True, recovery_point=501)
    assert (log.log_start_offset, log.log_end_offset) == (500, 501)
    assert log.truncate_to(400)
    assert log.log_end_offset == 400


# -- time ----------------------------------------------------------------------------------------------------


def test_max_timestamp(files: FaultyFiles) -> None:
    log = open_test_log(files, {"segment.bytes": 300})
    assert log.max_timestamp_offset() is None
    for timestamp in (5, 90, 20, 90, 30):
        log.append_internal(batch(3, timestamp=timestamp), 1, NOW)
    found = log.max_timestamp_offset()
    assert found is not None
    assert (found.timestamp, found.offset, found.leader_epoch) == (92, 5, 1)
    assert log.max_timestamp_offset(5) is None


@pytest.mark.parametrize("codec", [0, 1, 4])
def test_the_first_record_at_a_time_inside_a_batch(files: FaultyFiles, codec: int) -> None:
    log = open_test_log(files)
    log.append_internal(batch(10, timestamp=100, codec=codec), 0, NOW)
    found = log.offset_for_timestamp(104)
    assert found is not None
    assert (found.offset, found.timestamp) == (4, 104)
    assert log.offset_for_timestamp(104, 4) is None
    assert log.offset_for_timestamp(110) is None
    log.advance_log_start_offset(6)
    found = log.offset_for_timestamp(0)
    assert found is not None
    assert found.offset == 6


def test_a_flush_succeeds_without_space_for_the_epochs(files: FaultyFiles) -> None:
    log = open_test_log(files)
    produce(log, batch(), epoch=1)
    log.flush(NOW)
    produce(log, batch(), epoch=2)
    files.room_bytes = 0
    log.flush(NOW)
    assert log.recovery_point == 2 and log.log_dir.error is None
    assert b"2 1" not in (files.read_bytes(f"{DIRECTORY}/leader-epoch-checkpoint") or b"")
    files.heal()
    log.flush(NOW)
    assert b"2 1" in (files.read_bytes(f"{DIRECTORY}/leader-epoch-checkpoint") or b"")
