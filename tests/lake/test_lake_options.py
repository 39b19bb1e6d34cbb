"""The options of the lake sink."""

from __future__ import annotations

import os

import pytest

from pyspark_ottla_lake import DefaultSource
from pyspark_ottla_lake.options import parse_options


def test_defaults():
    options = parse_options({"path": "/lake/orders/"})
    assert options.path == "/lake/orders"
    assert options.is_local
    assert options.merge_schema
    assert options.partition_by is None
    assert options.target_file_bytes == 128 * 1024 * 1024
    assert options.compression == "snappy"
    assert options.app is None


def test_all_options():
    options = parse_options(
        {
            "PATH": "s3://bucket/orders",
            "partitionBy": " day , country",
            "mergeSchema": "FALSE",
            "targetFileSize": "64 MB",
            "compression": "zstd",
            "storage.AWS_REGION": "eu-central-1",
            "txnAppId": "nightly",
            "txnVersion": "4",
            "checkpointLocation": "/elsewhere",
        }
    )
    assert not options.is_local
    assert options.path == "s3://bucket/orders"
    assert options.partition_by == ("day", "country")
    assert not options.merge_schema
    assert options.target_file_bytes == 64 * 1024 * 1024
    assert options.storage == {"aws_region": "eu-central-1"}
    assert options.app == ("nightly", 4)


def test_local_paths():
    assert parse_options({"path": "lake"}).path == os.path.join(os.getcwd(), "lake")
    assert parse_options({"path": "file:///lake/a%20b"}).path == "/lake/a b"
    assert parse_options({"path": "file:/lake"}).path == "/lake"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"path": " "}, "'path' is missing"),
        ({"mergeSchema": "yes"}, "'mergeSchema' is 'yes': expected true or false"),
        ({"targetFileSize": "big"}, "'targetFileSize' is 'big'"),
        ({"targetFileSize": "1"}, "at least 1024 bytes"),
        ({"compression": "rar"}, "'compression' is 'rar': expected snappy, zstd"),
        ({"partitionBy": "a, A"}, "duplicate column"),
        ({"txnAppId": "x"}, "both or neither"),
        ({"txnAppId": "x", "txnVersion": "later"}, "'txnVersion' is 'later'"),
    ],
)
def test_invalid_options(options, reason):
    with pytest.raises(ValueError, match=reason):
        parse_options({"path": "/lake", **options})


def test_sink_is_registered_and_write_only():
    assert DefaultSource.name() == "ottla_lake"
    with pytest.raises(ValueError, match="write-only; read its tables"):
        DefaultSource({"path": "/lake"}).schema()
