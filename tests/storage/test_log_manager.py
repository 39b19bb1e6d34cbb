"""Several log directories: placement, loading, failures, deletion, checkpoints, cost of a partition."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pytest

from ottla.records.build import build_batch
from ottla.storage.checkpoints import CLEANED_OFFSETS
from ottla.storage.errors import CorruptLog, DirectoryInUse, DiskFull, StorageError, StorageOffline
from ottla.storage.files import OsFiles
from ottla.storage.log_config import LogConfig
from ottla.storage.manager.log_manager import LogManager
from ottla.testing.files import FaultyFiles

NOW = 1_000_000
CONFIG = LogConfig()
IDS = [bytes([i]) * 16 for i in range(10)]


def batch() -> bytearray:
    return build_batch([(NOW, None, b"value", ())])


def started(files: FaultyFiles, *paths: str) -> LogManager:
    manager = LogManager(files, paths or ("/a", "/b")).open()
    manager.load(lambda topic: CONFIG, NOW)
    return manager


def fill(manager: LogManager, count: int = 4) -> None:
    for partition in range(count):
        log = manager.open_or_create("t", partition, IDS[1], CONFIG, NOW, is_new=True)
        log.append_internal(batch(), 0, NOW)


def test_new_partitions_use_the_directory_with_the_fewest() -> None:
    manager = started(FaultyFiles())
    fill(manager, 5)
    counts = [log_dir.partition_count for log_dir in manager.dirs]
    assert sorted(counts) == [2, 3]


def test_a_clean_stop_and_start() -> None:
    files = FaultyFiles()
    manager = started(files)
    fill(manager)
    manager.logs["t", 0].advance_log_start_offset(1)
    manager.close(NOW, broker_epoch=77, high_watermarks={("t", 0): 1, ("t", 1): 1})
    files.crash()
    manager = LogManager(files, ["/a", "/b"]).open()
    assert [(log_dir.clean, log_dir.broker_epoch) for log_dir in manager.dirs] == [(True, 77)] * 2
    manager.load(lambda topic: CONFIG, NOW)
    assert {key: log.log_end_offset for key, log in manager.logs.items()} == {("t", i): 1 for i in range(4)}
    assert manager.logs["t", 0].log_start_offset == 1
    assert manager.high_watermark("t", 1) == 1
    assert manager.high_watermark("t", 2) is None
    assert all(log.topic_id == IDS[1] for log in manager.logs.values())
    assert not files.exists("/a/.kafka_cleanshutdown"), "the marker is valid for one start only"


def test_a_crash_recovers_from_the_checkpoint() -> None:
    files = FaultyFiles()
    manager = started(files, "/a")
    fill(manager)
    log = manager.logs["t", 1]
    log.flush(NOW)
    job = manager.checkpoint({("t", 1): 1})
    job.run()
    manager.finish_checkpoint(job)
    log.append_internal(batch(), 0, NOW)
    files.crash()
    manager = started(files, "/a")
    assert not manager.dirs[0].clean
    assert manager.dirs[0].recovery_points["t", 1] == 1
    assert manager.logs["t", 1].log_end_offset == 1


def test_many_logs_close_with_one_sync() -> None:
    files = FaultyFiles()
    manager = started(files, "/a")
    fill(manager, 80)
    manager.close(NOW)
    files.crash()
    manager = started(files, "/a")
    assert manager.dirs[0].clean
    assert [log.log_end_offset for log in manager.logs.values()] == [1] * 80
    assert [log.recovery_point for log in manager.logs.values()] == [1] * 80


def test_a_directory_is_locked(tmp_path: Path) -> None:
    manager = LogManager(OsFiles(), [f"{tmp_path}/d"]).open()
    with pytest.raises(DirectoryInUse, match="another process"):
        LogManager(OsFiles(), [f"{tmp_path}/other", f"{tmp_path}/d"]).open()
    manager.close(NOW)
    LogManager(OsFiles(), [f"{tmp_path}/other", f"{tmp_path}/d"]).open().close(NOW)


def test_a_failed_directory_does_not_affect_the_other() -> None:
    files = FaultyFiles()
    manager = started(files)
    fill(manager)
    gone: list[str] = []
    manager.on_offline = lambda log_dir: gone.append(log_dir.path)
    files.fail_under("/a")
    by_dir = {log.log_dir.path: key for key, log in manager.logs.items()}
    with pytest.raises(StorageOffline):
        manager.logs[by_dir["/a"]].append_internal(batch(), 0, NOW)
    assert gone == ["/a"]
    assert [log_dir.path for log_dir in manager.offline_dirs()] == ["/a"]
    with pytest.raises(StorageOffline):
        manager.get(*by_dir["/a"])
    live = manager.get(*by_dir["/b"])
    assert live is not None
    live.append_internal(batch(), 0, NOW)
    assert manager.retention_pass(NOW, lambda log: 0) == 0
    fresh = manager.open_or_create("new", 0, IDS[2], CONFIG, NOW, is_new=True)
    assert fresh.log_dir.path == "/b"
    with pytest.raises(StorageOffline):
        manager.open_or_create("unknown", 0, IDS[2], CONFIG, NOW)
    manager.close(NOW)
    files.heal()
    manager = started(files)
    assert [log_dir.clean for log_dir in manager.dirs] == [False, True]
    assert len(manager.logs) == 5


def test_a_directory_that_fails_at_startup() -> None:
    files = FaultyFiles()
    files.fail_under("/a")
    manager = started(files)
    assert [log_dir.path for log_dir in manager.live_dirs()] == ["/b"]
    manager.close(NOW)
    files.fail_under("/b")
    with pytest.raises(StorageError, match="Input/output error"):
        LogManager(files, ["/a", "/b"]).open()


def test_a_full_disk_does_not_take_a_directory_offline() -> None:
    files = FaultyFiles()
    manager = started(files, "/a")
    fill(manager)
    files.room_bytes = 0
    with pytest.raises(DiskFull):
        manager.logs["t", 0].append_internal(batch(), 0, NOW)
    job = manager.checkpoint()
    job.run()
    assert job.failures
    manager.finish_checkpoint(job)
    assert manager.live_dirs()
    files.room_bytes = None
    assert manager.logs["t", 0].append_internal(batch(), 0, NOW).first_offset == 1


def test_a_damaged_partition_is_reported_and_the_others_are_served() -> None:
    files = FaultyFiles()
    manager = started(files, "/a")
    fill(manager)
    manager.close(NOW)
    files.cut("/a/t-2/00000000000000000000.log", 30)
    for _ in range(2):
        manager = started(files, "/a")
        with pytest.raises(CorruptLog):
            manager.get("t", 2)
        assert manager.get("t", 1) is not None
        manager.close(NOW)
    manager = started(files, "/a")
    assert manager.delete("t", 2, "ab" * 16, NOW)
    assert manager.open_or_create("t", 2, IDS[3], CONFIG, NOW).log_end_offset == 0


def test_deleting_a_partition() -> None:
    files = FaultyFiles()
    manager = started(files, "/a")
    fill(manager)
    manager.close(NOW)
    manager = started(files, "/a")
    assert manager.delete("t", 1, "ab" * 16, NOW)
    assert not manager.delete("t", 1, "ab" * 16, NOW)
    gone = "/a/t-1." + "ab" * 16 + "-delete"
    assert files.is_dir(gone)
    assert manager.get("t", 1) is None
    again = manager.open_or_create("t", 1, IDS[2], CONFIG, NOW)
    assert (again.log_end_offset, again.topic_id) == (0, IDS[2])
    manager.remove_due(NOW + 59_999)
    assert files.is_dir(gone)
    manager.remove_due(NOW + 60_000)
    assert not files.is_dir(gone)


def test_a_deletion_continues_after_a_restart() -> None:
    files = FaultyFiles()
    manager = started(files, "/a")
    fill(manager)
    manager.delete("t", 1, "cd" * 16, NOW)
    manager.close(NOW)
    manager = started(files, "/a")
    assert ("t", 1) not in manager.logs
    manager.remove_due(NOW)
    assert not [name for name in files.listdir("/a") if name.endswith("-delete")]


@pytest.mark.parametrize("crash", [False, True], ids=["killed", "no power"])
def test_a_recreated_partition_inherits_no_checkpoint(crash: bool) -> None:
    """It is deleted after the last checkpoint, and its broker killed before the next one: twice."""
    files = FaultyFiles()
    manager = started(files, "/a")
    for _ in range(5):
        fill(manager, 1)
    manager.logs["t", 0].flush(NOW)
    manager.logs["t", 0].advance_log_start_offset(4)
    job = manager.checkpoint({("t", 0): 5})
    job.run()
    manager.finish_checkpoint(job)
    manager.delete("t", 0, "cd" * 16, NOW)

    def killed() -> LogManager:
        files.locks.clear()
        if crash:
            files.crash()
        return started(files, "/a")

    manager = killed()
    assert not manager.corrupt
    log = manager.open_or_create("t", 0, IDS[2], CONFIG, NOW)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert manager.high_watermark("t", 0) is None
    log.append_internal(batch(), 0, NOW)
    log.flush(NOW)
    manager = killed()
    assert not manager.corrupt
    assert (manager.logs["t", 0].log_start_offset, manager.logs["t", 0].log_end_offset) == (0, 1)
    assert manager.high_watermark("t", 0) is None


def test_the_longest_topic_name_can_be_deleted(tmp_path: Path) -> None:
    manager = LogManager(OsFiles(), [str(tmp_path)]).open()
    manager.open_or_create("x" * 249, 0, IDS[1], CONFIG, NOW)
    assert manager.delete("x" * 249, 0, "ab" * 16, NOW)
    (name,) = [path.name for path in tmp_path.iterdir() if path.is_dir()]
    assert len(name) == 255
    manager.close(NOW)


def test_stray_logs_are_found_and_renamed() -> None:
    files = FaultyFiles()
    manager = started(files, "/a")
    fill(manager, 2)
    manager.open_or_create("old", 0, IDS[5], CONFIG, NOW)
    manager.open_or_create("__cluster_metadata", 0, IDS[6], CONFIG, NOW)
    (stray,) = manager.find_strays(lambda topic, partition, topic_id: topic_id == IDS[1])
    path = manager.set_aside(stray, "ef" * 16)
    assert path == "/a/old-0." + "ef" * 16 + "-stray"
    assert manager.get("old", 0) is None
    manager.close(NOW)
    assert sorted(started(files, "/a").logs) == [("t", 0), ("t", 1)]
    assert files.is_dir(path)


def test_truncation_lowers_the_checkpoint_first() -> None:
    files = FaultyFiles()
    manager = started(files, "/a")
    fill(manager, 1)
    log = manager.logs["t", 0]
    log.append_internal(batch(), 0, NOW)
    log.flush(NOW)
    manager.checkpoint().run()
    assert b"t 0 2" in (files.read_bytes("/a/recovery-point-offset-checkpoint") or b"")
    log.truncate_to(1)
    assert b"t 0 1" in (files.read_bytes("/a/recovery-point-offset-checkpoint") or b"")


def test_an_unreadable_checkpoint_causes_a_full_recovery() -> None:
    files = FaultyFiles()
    manager = started(files, "/a")
    fill(manager)
    manager.close(NOW)
    files.write_atomic("/a/recovery-point-offset-checkpoint", b"garbage")
    manager = started(files, "/a")
    assert not manager.dirs[0].clean
    assert [log.log_end_offset for log in manager.logs.values()] == [1] * 4


def test_unrelated_files_in_the_directory_are_ignored() -> None:
    files = FaultyFiles()
    files.mkdir("/a/lost+found")
    files.mkdir("/a/t-7-future")
    files.mkdir("/a/__cluster_metadata-0")
    files.open("/a/notes-1").append(b"a file")
    assert started(files, "/a").logs == {}


def test_retention_pass_and_flush_candidates() -> None:
    files = FaultyFiles()
    manager = started(files, "/a")
    fill(manager)
    for log in manager.logs.values():
        log.config = LogConfig({"retention.ms": 10, "flush.messages": 1})
    assert len(manager.flush_candidates(NOW)) == 4
    for log in manager.flush_candidates(NOW):
        log.flush(NOW)
    assert manager.flush_candidates(NOW) == []
    assert manager.retention_pass(NOW + 1000, lambda log: log.log_end_offset) == 4
    assert {log.log_start_offset for log in manager.logs.values()} == {1}


def test_partitions_are_small_and_hold_no_descriptors(tmp_path: Path) -> None:
    count = 400
    files = OsFiles()
    manager = LogManager(files, [str(tmp_path)]).open()
    for partition in range(count):
        log = manager.open_or_create("topic", partition, IDS[1], CONFIG, NOW)
        if partition % 2:
            log.append_internal(batch(), 0, NOW)
    manager.close(NOW)
    assert files.open_count == 0
    gc.collect()
    tracemalloc.start()
    try:
        manager = LogManager(files, [str(tmp_path)]).open()
        manager.load(lambda topic: CONFIG, NOW)
        gc.collect()
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(manager.logs) == count
    assert files.open_count == 0
    assert used / count < 6 * 1024
    assert sum(log.log_end_offset for log in manager.logs.values()) == count // 2
    manager.close(NOW)


def test_an_empty_cleaner_checkpoint_of_kafka_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """Kafka creates the file when it starts, and writes it after the first compaction."""
    files = FaultyFiles()
    files.mkdir("/data")
    path = f"/data/{CLEANED_OFFSETS}"
    for data, errors in ((b"", 0), (b"0\n", 1)):
        files.write_atomic(path, data)
        caplog.clear()
        manager = LogManager(files, ["/data"]).open()
        assert len([record for record in caplog.records if record.levelname == "ERROR"]) == errors
        assert manager.dirs[0].cleaned == {}
        manager.close(0)
