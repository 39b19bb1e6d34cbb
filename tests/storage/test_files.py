"""Files of the operating system: bounded descriptors, atomic appends, errors that name the path."""

from __future__ import annotations

import errno
import os
import sys
import threading
from pathlib import Path

import pytest

from ottla.storage.errors import DirectoryInUse, DiskFull, OutOfDescriptors, StorageError
from ottla.storage.files import OsFile, OsFiles
from tests.support.descriptors import no_free_descriptors


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_files_are_opened_on_first_use(tmp_path: Path) -> None:
    files = OsFiles()
    file = files.open(f"{tmp_path}/a")
    assert file.size == 0
    assert files.open_count == 0
    file.append(b"abc")
    assert (files.open_count, file.size, file.read(1, 10)) == (1, 3, b"bc")
    file.close()
    assert files.open_count == 0
    assert file.read(0, 2) == b"ab"


def test_open_descriptors_are_bounded_and_recently_used_ones_kept(tmp_path: Path) -> None:
    files = OsFiles(open_max=4)
    before = open_descriptors()
    handles = [files.open(f"{tmp_path}/{i}") for i in range(20)]
    favourite = handles[0]
    assert isinstance(favourite, OsFile)
    favourite.append(b"x")
    for turn, handle in enumerate(handles[1:]):
        handle.append(b"%d" % turn)
        assert favourite.read(0, 1) == b"x"
        kept = favourite._fd
        assert files.open_count <= 4
        assert open_descriptors() <= before + 5
        assert os.pread(kept, 1, 0) == b"x"
    for turn, handle in enumerate(handles[1:]):
        assert handle.read(0, 9) == b"%d" % turn
        handle.append(b"!")
        assert handle.size == len(b"%d!" % turn)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_leaves_the_file_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    file = OsFiles().open(f"{tmp_path}/a")
    file.append(b"first")
    real = os.pwrite

    def half(fd: int, data: memoryview, position: int) -> int:
        if position > 5:
            raise OSError(code, os.strerror(code))
        return real(fd, memoryview(data)[:3], position)

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(DiskFull, match=str(tmp_path)):
        file.append(b"second")
    assert (tmp_path / "a").read_bytes() == b"first"
    monkeypatch.setattr(os, "pwrite", real)
    file.append(b"second")
    assert (tmp_path / "a").read_bytes() == b"firstsecond"


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, memoryview(data)[:2], at))
    file = OsFiles().open(f"{tmp_path}/a")
    file.append(memoryview(b"abcdefg"))
    assert (tmp_path / "a").read_bytes() == b"abcdefg"
    assert file.size == 7


def test_other_errors_name_the_path(tmp_path: Path) -> None:
    files = OsFiles()
    missing = f"{tmp_path}/none/file"
    with pytest.raises(StorageError, match="none/file: No such file") as caught:
        files.open(missing).append(b"x")
    assert not isinstance(caught.value, DiskFull)
    for attempt in (
        lambda: files.open(missing).read(0, 1),
        lambda: files.listdir(missing),
        lambda: files.create(missing),
        lambda: files.write_atomic(missing, b""),
        lambda: files.rename(missing, missing + "2"),
        lambda: files.free_bytes(missing),
    ):
        with pytest.raises(StorageError, match="none/file"):
            attempt()
    files.remove(missing)
    assert files.read_bytes(missing) is None
    assert files.size(missing) == -1


def test_atomic_write_leaves_no_temporary_file(tmp_path: Path) -> None:
    files = OsFiles()
    for data in (b"one", b"x" * 200_000):
        files.write_atomic(f"{tmp_path}/c", data)
        assert files.read_bytes(f"{tmp_path}/c") == data
    assert files.listdir(str(tmp_path)) == ["c"]


@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_a_failed_atomic_write_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    files = OsFiles()
    files.write_atomic(f"{tmp_path}/c", b"old")

    def full(*args: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(DiskFull):
            files.write_atomic(f"{tmp_path}/c", b"new")
    assert files.listdir(str(tmp_path)) == ["c"]
    assert files.read_bytes(f"{tmp_path}/c") == b"old"


def test_a_sync_handle_outlives_its_file(tmp_path: Path) -> None:
    files = OsFiles(open_max=1)
    before = open_descriptors()
    file = files.open(f"{tmp_path}/a")
    file.append(b"x")
    handle = file.sync_handle()
    files.open(f"{tmp_path}/b").append(b"y")
    file.close()
    files.remove(f"{tmp_path}/a")
    handle.sync()
    handle.close()
    assert open_descriptors() <= before + 1


def test_renamed_files_stay_usable(tmp_path: Path) -> None:
    files = OsFiles()
    file = files.open(f"{tmp_path}/a")
    file.append(b"x")
    file.rename(f"{tmp_path}/b")
    file.close()
    assert file.read(0, 1) == b"x"
    assert isinstance(file, OsFile)
    file.truncate(0)
    assert (tmp_path / "b").read_bytes() == b""


def test_a_directory_can_be_locked_once(tmp_path: Path) -> None:
    first, second = OsFiles(), OsFiles()
    lock = first.lock(f"{tmp_path}/.lock")
    with pytest.raises(DirectoryInUse, match="another process has locked the log directory"):
        second.lock(f"{tmp_path}/.lock")
    lock.release()
    second.lock(f"{tmp_path}/.lock").release()


def test_the_whole_file_system_can_be_synced(tmp_path: Path) -> None:
    OsFiles().sync_filesystem(str(tmp_path))
    with pytest.raises(StorageError):
        OsFiles().sync_filesystem(f"{tmp_path}/none")


# -- the process has no descriptor left


def many_open(tmp_path: Path, count: int = 8) -> tuple[OsFiles, list[OsFile]]:
    files = OsFiles(open_max=100)
    handles = [files.open(f"{tmp_path}/{n}") for n in range(count)]
    for n, handle in enumerate(handles):
        handle.append(b"%d" % n)
    return files, [handle for handle in handles if isinstance(handle, OsFile)]


def test_cached_descriptors_are_given_up_for_new_ones(tmp_path: Path) -> None:
    files, handles = many_open(tmp_path)
    (tmp_path / "sub").mkdir()
    with no_free_descriptors():
        files.create(f"{tmp_path}/new").append(b"new")
        assert files.read_bytes(f"{tmp_path}/new") == b"new"
        files.write_atomic(f"{tmp_path}/atomic", b"data")
        assert "atomic" in files.listdir(str(tmp_path))
        files.rmtree(f"{tmp_path}/sub")
        lock = files.lock(f"{tmp_path}/.lock")
        syncs = [handle.sync_handle() for handle in handles[-2:]]
        for n, handle in enumerate(handles):
            assert handle.read(0, 9) == b"%d" % n
        for sync in syncs:
            sync.sync()
        lock.release()
    assert 0 < files.open_count < len(handles)


def test_without_any_descriptor_the_error_is_transient(tmp_path: Path) -> None:
    files = OsFiles()
    file = files.open(f"{tmp_path}/a")
    with no_free_descriptors():
        for work in (
            lambda: file.append(b"x"),
            lambda: files.create(f"{tmp_path}/b"),
            lambda: files.write_atomic(f"{tmp_path}/c", b""),
            lambda: files.listdir(str(tmp_path)),
            lambda: files.sync_dir(str(tmp_path)),
            lambda: files.read_bytes(f"{tmp_path}/a"),
        ):
            with pytest.raises(OutOfDescriptors, match=str(tmp_path)):
                work()
    file.append(b"x")
    assert file.read(0, 1) == b"x"


def test_threads_do_not_close_a_descriptor_in_use(tmp_path: Path) -> None:
    """Each thread has its own files; the cache, which is far too small, is shared."""
    files = OsFiles(open_max=3)
    failures: list[object] = []

    def work(name: str) -> None:
        mine = [files.open(f"{tmp_path}/{name}-{n}") for n in range(3)]
        for turn in range(1500):
            file = mine[turn % 3]
            data = f"{name}-{turn % 3};".encode()
            try:
                file.append(data)
                if file.read(file.size - len(data), len(data)) != data:
                    failures.append(f"{file.path} has other data")
            except Exception as error:
                failures.append(error)
        for n, file in enumerate(mine):
            if file.read(0, file.size) != f"{name}-{n};".encode() * 500:
                failures.append(f"{file.path} is damaged")

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures, failures[:3]
    assert files.open_count <= 3 + 4
