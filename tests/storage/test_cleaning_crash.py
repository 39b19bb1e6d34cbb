"""A crash or power failure at any point of a cleaning leaves a complete log."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from ottla.records.build import build_batch
from ottla.records.control import end_txn_marker
from ottla.storage.checkpoints import CLEANED_OFFSETS, read_offsets
from ottla.storage.cleaning.job import DONE, CleaningAborted, CleanJob, CleanSettings
from ottla.storage.cleaning.plan import plan_clean
from ottla.storage.errors import DiskFull, StorageError
from ottla.storage.log import PartitionLog, open_log
from ottla.storage.log_config import LogConfig
from ottla.storage.manager.log_manager import LogManager
from ottla.storage.segments.swap import CleanedGroup
from ottla.testing.files import FaultyFiles
from tests.support.storage.cleaning import batches_of, clean, data_of

DIRECTORY = "/data/topic-0"
NOW_MS = 1_000_000
CONFIG = LogConfig(
    {
        "cleanup.policy": "compact",
        "segment.bytes": 600,
        "index.interval.bytes": 100,
        "delete.retention.ms": 10,
        "file.delete.delay.ms": 0,
    }
)


class Died(Exception):
    """The process ended here."""


class DyingFiles(FaultyFiles):
    """Dies before the n-th change of a name or of a file's content."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        super().__init__()
        self.left = 1 << 60

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Died

    def rename(self, path: str, new_path: str) -> None:
        self._count()
        super().rename(path, new_path)

    def remove(self, path: str) -> None:
        self._count()
        super().remove(path)

    def make(self, path: str):  # type: ignore[no-untyped-def]
        self._count()
        return super().make(path)

    def sync_dir(self, path: str) -> None:
        self._count()
        super().sync_dir(path)


def filled(files: FaultyFiles) -> PartitionLog:
    files.mkdir("/data")
    files.sync_dir("")
    log = open_log(files, DIRECTORY, CONFIG, now_ms=NOW_MS)
    for turn in range(40):
        value = None if turn % 9 == 0 else b"v%d" % turn
        log.append_internal(build_batch([(NOW_MS, b"k%d" % (turn % 7), value, ())]), 0, NOW_MS)
        if turn % 5 == 0:
            in_transaction = build_batch(
                [(NOW_MS, b"t", b"%d" % turn, ())],
                producer_id=5,
                producer_epoch=0,
                base_sequence=turn // 5,
                transactional=True,
            )
            log.append_internal(in_transaction, 0, NOW_MS)
            marker = end_txn_marker(5, 0, commit=turn % 10 == 0, coordinator_epoch=0, timestamp_ms=NOW_MS)
            log.append_internal(marker, 0, NOW_MS)
    log.flush(NOW_MS)
    return log


def values(log: PartitionLog) -> dict[bytes | None, bytes | None]:
    """The final value of each key after reading the whole log; deleted keys are left out."""
    last = {record.key: record.value for record in data_of(log).values()}
    return {key: value for key, value in last.items() if value is not None}


def reopen(files: FaultyFiles, recovery_point: int, *, clean_stop: bool = False) -> PartitionLog:
    return open_log(files, DIRECTORY, CONFIG, now_ms=NOW_MS, clean=clean_stop, recovery_point=recovery_point)


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power cut"])
def test_an_interrupted_swap_is_completed_or_undone(power: bool) -> None:
    after = 0
    for changes in range(10_000):
        files = DyingFiles()
        log = filled(files)
        truth, end = values(log), log.log_end_offset
        files.left = changes
        try:
            clean(log, NOW_MS)
            clean(log, NOW_MS + 100)
            log.flush(NOW_MS)
            log.remove_due(NOW_MS)
            survived = True
        except Died:
            survived = False
        files.left = 1 << 60
        if power:
            files.crash(random.Random(changes))
        again = reopen(files, log.recovery_point)
        assert values(again) == truth, changes
        assert again.log_end_offset == end
        assert again.producer_state.entries[5].last_sequence == 7
        again.last_stable_offset(end)
        names = files.listdir(DIRECTORY)
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))], changes
        after = len(batches_of(again))
        assert clean(again, NOW_MS)
        assert values(again) == truth
        if survived:
            break
    assert changes > 100 and after < 30


def test_an_interrupted_recovery_is_recovered_from() -> None:
    """The next start may crash, too, while it completes the changes."""
    for changes in (20, 24, 28, 32, 36, 40):
        for second in range(0, 60, 3):
            files = DyingFiles()
            log = filled(files)
            truth = values(log)
            files.left = changes
            with pytest.raises(Died):
                clean(log, NOW_MS)
            files.left = second
            with suppress(Died):
                reopen(files, log.recovery_point)
            files.left = 1 << 60
            assert values(reopen(files, log.recovery_point)) == truth, (changes, second)


def begun(log: PartitionLog) -> CleanJob:
    plan = plan_clean(log, log.log_end_offset, NOW_MS)
    log.cleaning = CleanJob(log, plan, CleanSettings(chunk_bytes=100), NOW_MS)
    return log.cleaning


@pytest.mark.parametrize("steps", range(0, 12, 2))
@pytest.mark.parametrize("what", ["truncate", "truncate fully", "retention", "delete", "close"])
def test_a_change_of_the_log_aborts_the_cleaning(steps: int, what: str) -> None:
    files = FaultyFiles()
    log = filled(files)
    job = begun(log)
    group = None
    for _ in range(steps):
        step = job.step()
        if isinstance(step, CleanedGroup):
            group = step
            break
    if what == "truncate":
        log.truncate_to(20)
    elif what == "truncate fully":
        log.truncate_fully_and_start_at(100)
    elif what == "retention":
        log.advance_log_start_offset(30)
        assert log.delete_old_segments(NOW_MS, log.log_end_offset)
    elif what == "delete":
        log.rename_directory("/data/topic-0.abc-delete")
    else:
        log.close(NOW_MS)
    if what in ("delete", "close"):
        if group is not None:
            with pytest.raises(StorageError):
                log.replace_segments(group, NOW_MS)
    elif group is not None:
        assert not log.replace_segments(group, NOW_MS)
    with pytest.raises(CleaningAborted):
        job.step()
    job.discard()
    if what == "truncate":
        assert log.log_end_offset == 20
        assert [header.base_offset for header, _ in batches_of(log)] == list(range(20))
        assert clean(log, NOW_MS) and clean_again_changes_nothing(log)
    left = [name for name in files.nodes if name.endswith((".cleaned", ".swap"))]
    assert not left or what == "delete", "a deleted directory is removed as a whole"


def clean_again_changes_nothing(log: PartitionLog) -> bool:
    before = batches_of(log)
    return not clean(log, NOW_MS) and batches_of(log) == before


def test_appends_continue_during_a_cleaning() -> None:
    log = filled(FaultyFiles())
    job = begun(log)
    while (step := job.step()) is not DONE:
        if isinstance(step, CleanedGroup):
            assert log.replace_segments(step, NOW_MS)
        log.append_internal(build_batch([(NOW_MS, b"k1", b"new", ())]), 0, NOW_MS)
    assert values(log)[b"k1"] == b"new"


def test_truncation_lowers_the_cleaned_offset() -> None:
    log = filled(FaultyFiles())
    assert clean(log, NOW_MS)
    log.truncate_to(log.cleaned_offset - 3)
    assert log.cleaned_offset == log.segments.active.base_offset


def test_a_full_disk_leaves_the_log_unchanged() -> None:
    files = FaultyFiles()
    log = filled(files)
    before = batches_of(log)
    files.room_bytes = 100
    with pytest.raises(DiskFull):
        clean(log, NOW_MS)
    assert log.cleaning is not None
    log.cleaning.discard()
    log.cleaning = None
    files.room_bytes = None
    assert batches_of(log) == before
    assert clean(log, NOW_MS)


def test_the_cleaned_offset_is_checkpointed() -> None:
    files = FaultyFiles()
    manager = LogManager(files, ["/data"]).open()
    log = manager.open_or_create("topic", 0, bytes(range(16)), CONFIG, NOW_MS)
    for turn in range(40):
        log.append_internal(build_batch([(NOW_MS, b"k", b"%d" % turn, ())]), 0, NOW_MS)
    log.flush(NOW_MS)
    manager.checkpoint().run()
    assert read_offsets(files, "/data", CLEANED_OFFSETS) == {}
    assert clean(log, NOW_MS)
    manager.checkpoint().run()
    assert read_offsets(files, "/data", CLEANED_OFFSETS) == {("topic", 0): log.cleaned_offset}
    manager.close(NOW_MS)
    manager = LogManager(files, ["/data"]).open()
    manager.load(lambda topic: CONFIG, NOW_MS)
    assert manager.logs["topic", 0].cleaned_offset == log.cleaned_offset > 0
    manager.delete("topic", 0, "abc", NOW_MS)
    fresh = manager.open_or_create("topic", 0, bytes(range(16)), CONFIG, NOW_MS)
    assert fresh.cleaned_offset == 0
    assert read_offsets(files, "/data", CLEANED_OFFSETS) == {}


def test_real_files_are_cleaned_and_read(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from ottla.storage.files import OsFiles

    files = OsFiles(open_max=4)
    log = open_log(files, str(tmp_path / "topic-0"), CONFIG, now_ms=NOW_MS)
    for turn in range(100):
        log.append_internal(build_batch([(NOW_MS, b"k%d" % (turn % 7), b"%d" % turn, ())]), 0, NOW_MS)
    log.flush(NOW_MS)
    region = log.read(0, 1 << 20)
    data = region.read()
    for turn in range(3):
        log.append_internal(build_batch([(NOW_MS, b"k%d" % turn, b"again", ())]), 0, NOW_MS)
        log.roll(NOW_MS)
        log.flush(NOW_MS)
        assert clean(log, NOW_MS)
    assert region.read() == data
    assert {key for key, value in values(log).items() if value == b"again"} == {b"k0", b"k1", b"k2"}
    assert values(log)[b"k6"] == b"97"
    log.remove_due(NOW_MS)
    log.close(NOW_MS)
    assert not [path.name for path in (tmp_path / "topic-0").iterdir() if path.name.endswith(".deleted")]
