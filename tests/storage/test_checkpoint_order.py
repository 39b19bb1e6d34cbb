"""Concurrent writes of checkpoints and of recovery points after a truncation."""

from __future__ import annotations

import threading
from pathlib import Path

from ottla.records.build import build_batch
from ottla.storage.checkpoints import RECOVERY_POINTS
from ottla.storage.files import OsFiles
from ottla.storage.log_config import LogConfig
from ottla.storage.manager.log_manager import LogManager

NOW = 1_000_000


def managed(path: Path) -> LogManager:
    manager = LogManager(OsFiles(), [str(path)]).open()
    manager.load(lambda topic: LogConfig(), NOW)
    log = manager.open_or_create("t", 0, bytes(15) + b"\1", LogConfig(), NOW, is_new=True)
    for _ in range(10):
        log.append_internal(build_batch([(NOW, None, b"value", ())]), 0, NOW)
    log.flush(NOW)
    assert log.recovery_point == 10
    return manager


def test_a_checkpoint_collected_before_a_truncation_is_not_written_after_it(tmp_path: Path) -> None:
    manager = managed(tmp_path)
    job = manager.checkpoint({("t", 0): 3})
    manager.logs["t", 0].truncate_to(4)
    job.run()
    assert not job.failures
    assert (tmp_path / RECOVERY_POINTS).read_text().splitlines()[-1] == "t 0 4"
    manager.checkpoint().run()
    assert (tmp_path / RECOVERY_POINTS).read_text().splitlines()[-1] == "t 0 4"
    manager.close(NOW)


def test_concurrent_checkpoint_writes(tmp_path: Path) -> None:
    manager = managed(tmp_path)
    ended = threading.Event()
    jobs = [manager.checkpoint() for _ in range(200)]

    def work() -> None:
        for job in jobs:
            job.run()
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    (log_dir,) = manager.live_dirs()
    while not ended.is_set():
        manager._checkpoints.write_recovery_points(log_dir)
    thread.join()
    assert not any(job.failures for job in jobs)
    assert log_dir.error is None
    manager.close(NOW)
