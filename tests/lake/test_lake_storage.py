"""Files written through deltalake's object store, tested with a file:// store."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyspark_ottla_lake.files import FileLayout, TaskFiles
from pyspark_ottla_lake.options import parse_options
from pyspark_ottla_lake.storage import LocalStorage, ObjectStorage, storage_of

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])


def test_files_in_an_object_store(tmp_path):
    storage = ObjectStorage(f"file://{tmp_path}", {})
    with TaskFiles(storage, FileLayout(SCHEMA, ("k",), 1 << 20, "zstd")) as files:
        files.add(pa.record_batch({"k": ["a/b", "c"], "v": [1, 2]}, SCHEMA))
        found = {file.partition_values["k"]: file for file in files.finish()}
    for value, number in (("a/b", 1), ("c", 2)):
        path = tmp_path / found[value].path
        assert path.stat().st_size == found[value].size_bytes
        assert pq.read_table(path, partitioning=None).to_pylist() == [{"v": number}]
    storage.remove(found["c"].path)
    assert not (tmp_path / found["c"].path).exists()
    storage.remove(found["c"].path)


def test_failure_removes_files(tmp_path):
    for storage in (ObjectStorage(f"file://{tmp_path}", {}), LocalStorage(str(tmp_path))):
        with pytest.raises(RuntimeError), TaskFiles(storage, FileLayout(SCHEMA, (), 1024, "none")) as files:
            for first in range(0, 10_000, 1000):
                numbers = list(range(first, first + 1000))
                files.add(pa.record_batch({"k": [str(n) for n in numbers], "v": numbers}, SCHEMA))
            raise RuntimeError
        assert not [name for _, _, names in os.walk(tmp_path) for name in names]


def test_file_names_are_unique(tmp_path):
    storage = LocalStorage(str(tmp_path))
    storage.finish(storage.create("a/b.parquet"), "a/b.parquet")
    with pytest.raises(FileExistsError):
        storage.create("a/b.parquet")


def test_storage_by_path(tmp_path):
    assert isinstance(storage_of(parse_options({"path": str(tmp_path)})), LocalStorage)
    storage = {"storage.aws_region": "eu-central-1", "storage.aws_skip_signature": "true"}
    assert isinstance(storage_of(parse_options({"path": "s3://bucket/table", **storage})), ObjectStorage)


@pytest.fixture
def synced(monkeypatch):
    """The paths that were synced, in order. The real fsync is called."""
    paths: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(os, "fsync", fsync)
    return paths


def test_finish_syncs_the_file_and_then_its_directories(tmp_path, synced):
    storage = LocalStorage(str(tmp_path / "new" / "table"))
    storage.finish(storage.create("a=1/b=2/c.parquet"), "a=1/b=2/c.parquet")
    chain = ["new/table/a=1/b=2/c.parquet", "new/table/a=1/b=2", "new/table/a=1", "new/table", "new", ""]
    assert synced[: len(chain)] == [str(tmp_path / path) for path in chain]

    # What is known to be on disk is not synced again for every file, only the directory of the new entry.
    synced.clear()
    storage.finish(storage.create("a=1/b=2/d.parquet"), "a=1/b=2/d.parquet")
    assert synced == [str(tmp_path / "new/table/a=1/b=2/d.parquet"), str(tmp_path / "new/table/a=1/b=2")]


def test_finish_syncs_directories_that_another_task_created(tmp_path, synced):
    os.makedirs(tmp_path / "table" / "a=1")
    storage = LocalStorage(str(tmp_path / "table"))
    storage.finish(storage.create("a=1/c.parquet"), "a=1/c.parquet")
    assert {str(tmp_path / "table" / "a=1"), str(tmp_path / "table"), str(tmp_path)} <= set(synced)


def test_finish_syncs_a_directory_that_was_removed_and_created_again(tmp_path, synced):
    storage = LocalStorage(str(tmp_path))
    storage.finish(storage.create("a=1/c.parquet"), "a=1/c.parquet")
    storage.remove("a=1/c.parquet")
    os.rmdir(tmp_path / "a=1")
    synced.clear()
    storage.finish(storage.create("a=1/d.parquet"), "a=1/d.parquet")
    assert str(tmp_path) in synced


def test_commit_syncs_the_log_of_a_local_table(lake, synced):
    query = lake("id long")
    log = os.path.join(query.path, "_delta_log")
    for batch in range(3):
        written = query.task(batch, [{"id": batch}])
        synced.clear()
        query.writer().commit([written], batch)
        newest = os.path.join(log, f"{query.table().version():020}.json")
        assert newest in synced
        assert synced.index(newest) < synced.index(log) < synced.index(query.path)


def test_repeated_batch_syncs_the_log_before_it_is_skipped(lake, synced):
    query = lake("id long")
    query.writer().commit([query.task(0, [{"id": 1}])], 0)
    newest = os.path.join(query.path, "_delta_log", f"{query.table().version():020}.json")
    query.run_id = "run-2"
    repeated = query.task(0, [{"id": 1}])
    assert repeated.skipped
    synced.clear()
    query.writer().commit([repeated], 0)
    assert newest in synced


def test_log_before_the_last_checkpoint_is_not_synced_again(lake, synced):
    query = lake("id long")
    for batch in range(3):
        query.writer().commit([query.task(batch, [{"id": batch}])], batch)
    query.table().create_checkpoint()
    checkpoint = query.table().version()
    written = query.task(3, [{"id": 3}])
    synced.clear()
    query.writer().commit([written], 3)
    names = {os.path.basename(path) for path in synced if "_delta_log/" in path}
    assert names == {
        f"{checkpoint:020}.json",
        f"{checkpoint:020}.checkpoint.parquet",
        f"{checkpoint + 1:020}.json",
        "_last_checkpoint",
    }
