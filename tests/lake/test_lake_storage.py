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
