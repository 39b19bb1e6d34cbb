"""The in-memory file system with faults: it must lose what it claims to lose."""

from __future__ import annotations

import random

import pytest

from ottla.storage.errors import DiskFull, StorageError
from ottla.testing.files import FaultyFiles


@pytest.fixture
def files() -> FaultyFiles:
    made = FaultyFiles()
    made.mkdir("/d")
    made.sync_dir("/")
    return made


def test_only_synced_content_under_a_synced_name_survives(files: FaultyFiles) -> None:
    for name in ("both", "content", "name"):
        files.open(f"/d/{name}").append(b"synced")
    files.open("/d/both").sync()
    files.sync_dir("/d")
    files.open("/d/late").append(b"x")
    files.open("/d/late").sync()
    files.open("/d/both").append(b" and not")
    files.crash()
    assert files.listdir("/d") == ["both", "content", "name"]
    assert files.read_bytes("/d/both") == b"synced"
    assert files.read_bytes("/d/name") == b""


def test_renames_and_removals_need_a_sync(files: FaultyFiles) -> None:
    for name in ("a", "b"):
        files.write_atomic(f"/d/{name}", b"1")
    files.rename("/d/a", "/d/c")
    files.remove("/d/b")
    files.crash()
    assert files.listdir("/d") == ["a", "b"]
    files.rename("/d/a", "/d/c")
    files.remove("/d/b")
    files.sync_dir("/d")
    files.crash()
    assert files.listdir("/d") == ["c"]


def test_a_directory_is_lost_with_its_unsynced_parent(files: FaultyFiles) -> None:
    files.mkdir("/d/e/f")
    files.write_atomic("/d/e/f/file", b"1")
    files.sync_dir("/d/e")
    files.crash()
    assert files.listdir("/d") == []


def test_a_random_crash_keeps_a_prefix_or_zeros(files: FaultyFiles) -> None:
    seen = set()
    for seed in range(200):
        node_files = FaultyFiles()
        node_files.mkdir("/d")
        node_files.sync_dir("/")
        node_files.write_atomic("/d/a", b"S" * 600)
        node_files.open("/d/a").append(b"N" * 1500)
        node_files.crash(random.Random(seed))
        left = node_files.read_bytes("/d/a") or b""
        assert left.startswith(b"S" * 600)
        assert set(left[600:]) <= {ord("N"), 0}
        seen.add("torn" if 0 in left else "short" if len(left) < 2100 else "whole")
    assert {"torn", "short"} <= seen


def test_injected_faults(files: FaultyFiles) -> None:
    file = files.open("/d/a")
    file.append(b"\0\0")
    files.flip_bit("/d/a", 1, bit=3)
    assert file.read(0, 9) == b"\0\x08"
    files.room_bytes = 3
    with pytest.raises(DiskFull):
        file.append(b"1234")
    file.append(b"123")
    file.truncate(2)
    assert files.room_bytes == 3
    files.fail_under("/d", only_syncs=True)
    file.append(b"1")
    with pytest.raises(StorageError):
        file.sync()
    files.fail_under("/d")
    with pytest.raises(StorageError):
        file.read(0, 1)
    files.heal()
    file.sync()
