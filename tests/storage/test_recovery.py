"""Opening a log after a crash, after disk damage, or with files written by Kafka."""

from __future__ import annotations

import random
import shutil
import struct
from pathlib import Path

import pytest

from ottla.records.batch import iter_headers
from ottla.records.build import build_batch
from ottla.storage.errors import CorruptLog, StorageError
from ottla.storage.files import OsFiles
from ottla.storage.log import PartitionLog, open_log
from ottla.storage.log_config import LogConfig
from ottla.testing.files import FaultyFiles

NOW = 1_000_000
DIRECTORY = "/data/t-0"
FIRST = f"{DIRECTORY}/{0:020d}"


def batch(offset_hint: int = 0, count: int = 1, size: int = 40) -> bytearray:
    records = [(NOW + offset_hint + i, None, bytes([offset_hint % 256]) * size, ()) for i in range(count)]
    return build_batch(records)


def new_files() -> FaultyFiles:
    files = FaultyFiles()
    files.mkdir("/data")
    files.sync_dir("")
    return files


def open_test_log(
    files: FaultyFiles,
    *,
    clean: bool = False,
    recovery_point: int | None = 0,
    start: int = 0,
    segment_bytes: int = 1 << 20,
    policy: str = "delete",
    cleaned_offset: int = 0,
) -> PartitionLog:
    config = LogConfig(
        {"segment.bytes": segment_bytes, "index.interval.bytes": 200, "cleanup.policy": policy}
    )
    return open_log(
        files,
        DIRECTORY,
        config,
        now_ms=NOW,
        clean=clean,
        recovery_point=recovery_point,
        log_start_offset=start,
        cleaned_offset=cleaned_offset,
    )


def filled(files: FaultyFiles, count: int = 10, segment_bytes: int = 1 << 20) -> PartitionLog:
    log = open_test_log(files, segment_bytes=segment_bytes)
    for i in range(count):
        log.append_internal(batch(i), i // 4, NOW)
    return log


def read_all(log: PartitionLog) -> list[int]:
    found: list[int] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        headers = [header for _, header in iter_headers(log.read(offset, 1 << 20).read())]
        found += [header.base_offset for header in headers]
        offset = headers[-1].next_offset
    return found


def test_the_log_is_truncated_at_any_flipped_byte_of_the_tail() -> None:
    size = len(batch())
    for position in range(5 * size, 8 * size):
        files = new_files()
        log = filled(files, 8)
        log.flush(NOW)
        files.flip_bit(FIRST + ".log", position, bit=position % 8)
        log = open_test_log(files, recovery_point=5)
        inside = position % size
        # The checksum does not cover the leader epoch.
        if not 12 <= inside < 16:
            assert log.log_end_offset == position // size, position
        assert read_all(log)[:5] == [0, 1, 2, 3, 4]


def test_the_log_is_truncated_where_the_leader_epoch_decreases() -> None:
    size = len(batch())
    files = new_files()
    filled(files, 10).flush(NOW)
    files.flip_bit(FIRST + ".log", 9 * size + 15, bit=1)  # the last byte of the epoch: 2 becomes 0
    log = open_test_log(files, recovery_point=5)
    assert log.log_end_offset == 9
    assert log.leader_epochs.entries() == [(0, 0), (1, 4), (2, 8)]


def test_a_single_leader_epoch_that_is_too_high_truncates_no_later_batch() -> None:
    """A power failure damaged it in the last batch, undetected, and more batches were appended since."""
    size = len(batch())
    files = new_files()
    filled(files, 10).flush(NOW)
    files.flip_bit(FIRST + ".log", 6 * size + 13, bit=0)  # 1 becomes 65537
    log = open_test_log(files, recovery_point=0)
    assert log.log_end_offset == 10
    assert log.leader_epochs.entries() == [(0, 0), (1, 4), (2, 8)]


def test_a_torn_tail_of_any_length_is_truncated_at_a_batch() -> None:
    size = len(batch())
    for length in range(5 * size, 8 * size):
        files = new_files()
        filled(files, 8).flush(NOW)
        files.cut(FIRST + ".log", length)
        log = open_test_log(files, recovery_point=5)
        assert log.log_end_offset == length // size
        assert log.size_bytes == length // size * size
        assert log.append_internal(batch(), 9, NOW).first_offset == length // size
        assert read_all(log) == list(range(length // size + 1))


def test_zeros_and_garbage_after_the_log_are_truncated() -> None:
    for tail in (bytes(5000), b"\xff" * 100, random.Random(1).randbytes(3000), bytes(12)):
        files = new_files()
        filled(files).flush(NOW)
        files.open(FIRST + ".log").append(tail)
        log = open_test_log(files, recovery_point=10)
        assert log.log_end_offset == 10
        assert read_all(log) == list(range(10))


def test_damage_below_the_recovery_point_is_not_truncated() -> None:
    files = new_files()
    filled(files).flush(NOW)
    before = files.size(FIRST + ".log")
    files.flip_bit(FIRST + ".log", 3 * len(batch()) + 80)
    with pytest.raises(CorruptLog, match="damaged at offset 3, below the recovery point 10"):
        open_test_log(files, recovery_point=10)
    assert files.size(FIRST + ".log") == before, "nothing is truncated"
    files.cut(FIRST + ".log", before - 1)
    with pytest.raises(CorruptLog):
        open_test_log(files, recovery_point=10)


def test_damage_is_detected_on_read_after_a_clean_stop() -> None:
    files = new_files()
    log = filled(files, 40)
    log.close(NOW)
    size = len(batch())
    files.flip_bit(FIRST + ".log", 5 * size + 90)
    log = open_test_log(files, clean=True, recovery_point=40)
    region = log.read(2, 1 << 20)
    assert [h.base_offset for _, h in iter_headers(region.read())] == [2, 3, 4], "served up to the damage"
    for offset in (5, 5):
        with pytest.raises(CorruptLog, match="damaged"):
            log.read(offset, 1 << 20)
    assert [h.base_offset for _, h in iter_headers(log.read(6, 1 << 20).read())] == list(range(6, 40))
    with pytest.raises(CorruptLog):
        log.offset_for_timestamp(NOW + 5)
    log.append_internal(batch(), 9, NOW)
    assert log.log_dir.error is None, "the rest of the directory is fine"


def test_a_damaged_end_after_a_clean_stop_is_reported() -> None:
    files = new_files()
    filled(files).close(NOW)
    files.cut(FIRST + ".log", files.size(FIRST + ".log") - 3)
    with pytest.raises(CorruptLog):
        open_test_log(files, clean=True, recovery_point=10)


def test_a_clean_open_scans_nothing() -> None:
    files = new_files()
    filled(files, 2000).close(NOW)
    before = files.reads
    log = open_test_log(files, clean=True, recovery_point=2000)
    assert log.log_end_offset == 2000
    assert files.reads - before <= 6


def test_an_unclean_open_reads_only_after_the_recovery_point() -> None:
    files = new_files()
    log = filled(files, 100, segment_bytes=1000)
    log.flush(NOW)
    first_kept = log.segments[-3].base_offset
    files.flip_bit(FIRST + ".log", 90)
    log = open_test_log(files, recovery_point=first_kept, segment_bytes=1000)
    assert log.log_end_offset == 100
    with pytest.raises(CorruptLog):
        log.read(0, 1000)


@pytest.mark.parametrize("lost", [".index", ".timeindex"])
def test_lost_indexes_are_rebuilt(lost: str) -> None:
    files = new_files()
    log = filled(files, 60, segment_bytes=2000)
    log.close(NOW)
    originals = {
        path: files.read_bytes(path) for path in files.nodes if path.endswith((".index", ".timeindex"))
    }
    for path in originals:
        if path.endswith(lost):
            files.remove(path)
    log = open_test_log(files, clean=True, recovery_point=60, segment_bytes=2000)
    for offset in range(60):
        assert next(iter_headers(log.read(offset, 1).read()))[1].base_offset == offset
        found = log.offset_for_timestamp(NOW + offset)
        assert found is not None
        assert found.offset == offset
    assert all(files.exists(path) for path in originals)


def test_indexes_of_a_stopped_kafka_end_in_zeros() -> None:
    files = new_files()
    filled(files, 60).close(NOW)
    for suffix in (".index", ".timeindex"):
        size = files.size(FIRST + suffix)
        files.open(FIRST + suffix).append(
            bytes(10_485_760 // 12 * 12 - size if suffix == ".timeindex" else 10_485_760 - size)
        )
    log = open_test_log(files, clean=True, recovery_point=60)
    assert log.log_end_offset == 60
    assert read_all(log) == list(range(60))
    log.append_internal(batch(), 20, NOW)
    log.close(NOW)
    assert files.size(FIRST + ".index") < 1000


def test_segments_after_a_truncation_are_removed() -> None:
    files = new_files()
    log = filled(files, 40, segment_bytes=1000)
    log.flush(NOW)
    second, third = log.segments[1], log.segments[2]
    files.flip_bit(second.log.path, 70)
    log = open_test_log(files, recovery_point=0, segment_bytes=1000)
    assert log.log_end_offset == second.base_offset
    assert not files.exists(third.log.path)
    assert log.leader_epochs.entries()[-1][1] < log.log_end_offset
    log.append_internal(batch(), 50, NOW)
    assert read_all(log) == list(range(second.base_offset + 1))


@pytest.mark.parametrize("cleaned", [False, True])
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_missing_segment_ends_the_log_unless_it_was_compacted(policy: str, cleaned: bool) -> None:
    """Ottla's compaction leaves no gap between segments; Kafka's may."""
    files = new_files()
    log = filled(files, 40, segment_bytes=1000)
    log.flush(NOW)
    second, third = log.segments[1].base_offset, log.segments[2].base_offset
    log.segments[1].remove()
    log = open_test_log(
        files, recovery_point=0, segment_bytes=1000, policy=policy, cleaned_offset=third if cleaned else 0
    )
    if not cleaned:
        assert log.log_end_offset == second
    else:
        assert log.log_end_offset == 40
        assert read_all(log) == [*range(second), *range(third, 40)]
        assert len(log.read(second, 1000)) > 0


def copied(files: FaultyFiles, *offsets: int, segment_bytes: int = 1 << 20) -> PartitionLog:
    """A follower's copy of a log with batches at these offsets."""
    log = open_test_log(files, segment_bytes=segment_bytes)
    for offset in offsets:
        records = [(NOW + offset, None, b"x" * 40, ())]
        log.append_as_follower(bytes(build_batch(records, base_offset=offset)), NOW)
    log.flush(NOW)
    return log


@pytest.mark.parametrize("recovery_point", [0, 5, 21])
@pytest.mark.parametrize("segment_bytes", [200, 1 << 20])
def test_gaps_of_a_log_that_was_compacted_are_no_damage(recovery_point: int, segment_bytes: int) -> None:
    """The policy is `delete` by now, or the log is a copy that was not synced."""
    files = new_files()
    offsets = [0, 7, 20, 40, 41, 60]
    copied(files, *offsets, segment_bytes=segment_bytes)
    log = open_test_log(files, recovery_point=recovery_point, segment_bytes=segment_bytes)
    assert log.log_end_offset == 61
    assert read_all(log) == offsets


def test_a_gap_across_the_recovery_point_before_the_last_batch_is_no_damage() -> None:
    """Compaction removed what was at the recovery point when that was written."""
    files = new_files()
    copied(files, 0, 1, 2, 70)
    log = open_test_log(files, recovery_point=61)
    assert read_all(log) == [0, 1, 2, 70]


def test_a_gap_before_an_empty_last_segment_is_no_damage() -> None:
    """Compaction leaves the active segment alone: it begins where the cleaned part ends."""
    files = new_files()
    log = copied(files, 0, 1, 70)
    log.roll(NOW)
    log.flush(NOW)
    log = open_test_log(files, recovery_point=0)
    assert (log.log_end_offset, read_all(log)) == (71, [0, 1, 70])


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("segment_bytes", [400, 1 << 20])
def test_an_offset_that_the_next_batch_contradicts_is_damage(policy: str, segment_bytes: int) -> None:
    """The checksum does not cover the offset: a flipped bit looks like a gap."""
    size = len(batch())
    for position in range(8):
        for bit in range(8):
            files = new_files()
            log = filled(files, 12, segment_bytes=segment_bytes)
            log.flush(NOW)
            segment = log.segments[1] if len(log.segments) > 1 else log.segments[0]
            victim = segment.base_offset + segment.size // size - 1 if len(log.segments) > 1 else 6
            files.flip_bit(segment.log.path, (victim - segment.base_offset) * size + position, bit=bit)
            log = open_test_log(files, recovery_point=1, segment_bytes=segment_bytes, policy=policy)
            assert (log.log_end_offset, read_all(log)) == (victim, list(range(victim)))


def test_a_log_start_beyond_the_files_recreates_the_log() -> None:
    files = new_files()
    filled(files).flush(NOW)
    log = open_test_log(files, recovery_point=5, start=70)
    assert (log.log_start_offset, log.log_end_offset) == (70, 70)
    assert log.append_internal(batch(), 9, NOW).first_offset == 70


def test_lost_epochs_are_rebuilt_from_the_log() -> None:
    files = new_files()
    log = filled(files)
    expected = log.leader_epochs.entries()
    log.close(NOW)
    files.write_atomic(f"{DIRECTORY}/leader-epoch-checkpoint", b"")
    assert open_test_log(files, clean=True, recovery_point=10).leader_epochs.entries() == expected
    assert expected == [(0, 0), (1, 4), (2, 8)]


def test_epochs_below_a_lowered_log_start_are_rebuilt_from_the_log() -> None:
    """The log start has its own checkpoint, and a power failure may leave an old one."""
    files = new_files()
    log = open_test_log(files)
    for offset, epoch in enumerate((1, 1, 2, 2, 3)):
        log.append_internal(batch(offset), epoch, NOW)
    log.flush(NOW)
    log.advance_log_start_offset(3)
    log.flush(NOW)
    assert log.leader_epochs.entries() == [(2, 3), (3, 4)]
    files.crash()
    reopened = open_test_log(files, recovery_point=5)
    assert reopened.log_start_offset == 0
    assert reopened.leader_epochs.entries() == [(1, 0), (2, 2), (3, 4)]


def test_leftover_files_of_deletion_and_cleaning() -> None:
    files = new_files()
    filled(files).close(NOW)
    names = [
        "00000000000000000099.log.deleted",
        "00000000000000000000.log.cleaned",
        "00000000000000000000.index.swap",
    ]
    for name in names:
        files.open(f"{DIRECTORY}/{name}").append(b"x")
    orphan = f"{DIRECTORY}/{77:020d}.index"
    files.open(orphan).append(bytes(8))
    log = open_test_log(files, clean=True, recovery_point=10)
    assert log.log_end_offset == 10
    assert not any(files.exists(f"{DIRECTORY}/{name}") for name in names)
    assert not files.exists(orphan)


def test_a_finished_cleaning_is_swapped_in() -> None:
    files = new_files()
    log = filled(files, 40, segment_bytes=1000)
    log.close(NOW)
    bases = [segment.base_offset for segment in log.segments]
    merged = b"".join(bytes(log.segments[i].log.read(0, 1 << 20)) for i in range(3))
    size = len(batch())
    kept = b"".join(merged[i * size : (i + 1) * size] for i in range(0, bases[3], 2))
    last = merged[(bases[3] - 1) * size : bases[3] * size]
    files.open(FIRST + ".log.swap").append(kept if bases[3] % 2 else kept + last)
    log = open_test_log(files, clean=True, recovery_point=40, segment_bytes=1000, policy="compact")
    expected = [*range(0, bases[3], 2)]
    expected += [] if bases[3] % 2 else [bases[3] - 1]
    assert read_all(log) == [*expected, *range(bases[3], 40)]
    assert not [path for path in files.nodes if path.endswith(".swap")]
    assert [segment.base_offset for segment in log.segments] == [0, *bases[3:]]


def test_real_files_survive_a_kill(tmp_path: Path) -> None:
    """The same on a real file system: a copy taken at any time opens with a contiguous run of the batches."""
    config = LogConfig({"segment.bytes": 3000, "index.interval.bytes": 300})
    log = open_log(OsFiles(), f"{tmp_path}/t-0", config, now_ms=NOW)
    rng = random.Random(7)
    for i in range(60):
        log.append_internal(batch(i, rng.randint(1, 4)), 0, NOW)
        if i % 20 == 7:
            log.flush(NOW)
        if i % 6 == 5:
            copy = f"{tmp_path}/copy{i}/t-0"
            shutil.copytree(f"{tmp_path}/t-0", copy)
            again = open_log(OsFiles(), copy, config, now_ms=NOW, recovery_point=log.recovery_point)
            assert again.log_end_offset == log.log_end_offset
            assert again.read(0, 1 << 20).read() == log.read(0, 1 << 20).read()
            again.abandon()
    log.close(NOW)


def test_an_unreadable_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "t-0").write_bytes(b"a file, not a directory")
    with pytest.raises(StorageError, match="t-0"):
        open_log(OsFiles(), f"{tmp_path}/t-0", LogConfig(), now_ms=NOW)


def test_an_emptied_index_does_not_come_back_after_a_power_loss() -> None:
    files = new_files()
    log = filled(files, 20, segment_bytes=5000)
    log.roll(NOW)
    log.flush(NOW)
    log = open_test_log(files, recovery_point=20)
    log.truncate_to(0)
    log.append_internal(batch(count=4, size=800), 9, NOW)
    log.roll(NOW)
    log.flush(NOW)
    files.crash()
    log = open_test_log(files, recovery_point=log.recovery_point)
    assert read_all(log) == [0]
    assert not len(log.segments.first.offset_index)


@pytest.mark.parametrize("entry", [(2, 200), (1, 5 * 108), (3, 61)])
def test_an_index_that_does_not_fit_the_log_is_rebuilt_by_a_lookup(entry: tuple[int, int]) -> None:
    files = new_files()
    size = len(batch())
    filled(files, 10).close(NOW)
    index = files.open(FIRST + ".index")
    index.truncate(0)
    index.append(struct.pack(">ii", entry[0], entry[1] // 108 * size or entry[1]))
    log = open_test_log(files, clean=True, recovery_point=10)
    for offset in range(10):
        assert next(iter_headers(log.read(offset, 1 << 20).read()))[1].base_offset == offset
