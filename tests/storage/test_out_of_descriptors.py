"""A log without free descriptors: operations fail and are retried; nothing leaks, nothing goes offline."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.records.build import build_batch
from ottla.records.validate import AppendRules, check_produce
from ottla.storage.errors import OutOfDescriptors
from ottla.storage.files import OsFiles
from ottla.storage.log import PartitionLog, open_log
from ottla.storage.log_config import LogConfig
from tests.support.descriptors import no_free_descriptors


def log_with_segments(tmp_path: Path, count: int) -> PartitionLog:
    directory = f"{tmp_path}/topic-0"
    os.mkdir(directory)
    log = open_log(OsFiles(open_max=1), directory, LogConfig(), now_ms=0)
    for n in range(count):
        checked = check_produce(build_batch([(n, None, b"value", ())]), AppendRules(), n)
        log.append_as_leader(checked, 0, n)
        log.roll(n)
    return log


def test_a_flush_that_finds_no_descriptor_leaks_none_and_is_repeated(tmp_path: Path) -> None:
    log = log_with_segments(tmp_path, 5)
    before = len(os.listdir("/proc/self/fd"))
    with no_free_descriptors(except_for=3):
        with pytest.raises(OutOfDescriptors):
            log.begin_flush()
        assert log.log_dir.error is None
        # None of the duplicates that it had taken is left.
        for fd in [os.dup(0) for _ in range(3)]:
            os.close(fd)
    assert len(os.listdir("/proc/self/fd")) <= before
    log.flush(10)
    assert log.recovery_point == log.log_end_offset == 5
    log.close(10)
