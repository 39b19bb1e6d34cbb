"""The text files of a log directory, byte for byte."""

from __future__ import annotations

import pytest

from ottla.storage import checkpoints
from ottla.storage.checkpoints import CorruptCheckpoint, MetaProperties
from ottla.testing.files import FaultyFiles


@pytest.fixture
def files() -> FaultyFiles:
    made = FaultyFiles()
    made.mkdir("/d")
    return made


def test_offsets(files: FaultyFiles) -> None:
    offsets = {("a", 0): 5, ("b.c_d-e", 12): 1 << 40}
    files.write_atomic(f"/d/{checkpoints.RECOVERY_POINTS}", checkpoints.render_offsets(offsets))
    stored = files.read_bytes("/d/recovery-point-offset-checkpoint")
    assert stored == b"0\n2\na 0 5\nb.c_d-e 12 1099511627776\n"
    assert checkpoints.read_offsets(files, "/d", checkpoints.RECOVERY_POINTS) == offsets
    assert checkpoints.read_offsets(files, "/d", checkpoints.LOG_STARTS) == {}


@pytest.mark.parametrize(
    "data", [b"", b"0\n", b"1\n0\n", b"0\n2\na 0 5\n", b"0\n1\na 0\n", b"0\n1\na b c\n", b"\xff\xfe"]
)
def test_damaged_offsets(data: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        checkpoints.parse_offsets(data)


def test_clean_shutdown_marker_is_consumed(files: FaultyFiles) -> None:
    assert checkpoints.take_clean_shutdown(files, "/d") == (False, -1)
    checkpoints.write_clean_shutdown(files, "/d", 42)
    assert files.read_bytes("/d/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":42}'
    assert checkpoints.take_clean_shutdown(files, "/d") == (True, 42)
    files.crash()
    assert checkpoints.take_clean_shutdown(files, "/d") == (False, -1)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"version":0}', b'"x"'])
def test_a_marker_without_epoch_is_valid(files: FaultyFiles, data: bytes) -> None:
    files.write_atomic("/d/.kafka_cleanshutdown", data)
    assert checkpoints.take_clean_shutdown(files, "/d") == (True, -1)


def test_meta_properties(files: FaultyFiles) -> None:
    assert checkpoints.read_meta_properties(files, "/d") is None
    meta = MetaProperties("4L6g3nShT-eMCtK--X86sw", 3, bytes(range(16)))
    checkpoints.write_meta_properties(files, "/d", meta)
    assert checkpoints.read_meta_properties(files, "/d") == meta
    lines = (files.read_bytes("/d/meta.properties") or b"").decode().split("\n")
    assert lines == [
        "cluster.id=4L6g3nShT-eMCtK--X86sw",
        "directory.id=AAECAwQFBgcICQoLDA0ODw",
        "node.id=3",
        "version=1",
        "",
    ]


def test_meta_properties_as_java_writes_them(files: FaultyFiles) -> None:
    text = "#\n#Mon Nov 16\nnode.id=1\ndirectory.id=AAECAwQFBgcICQoLDA0ODw\nversion=1\ncluster.id=a\\:b\n"
    files.write_atomic("/d/meta.properties", text.encode())
    meta = checkpoints.read_meta_properties(files, "/d")
    assert meta is not None
    assert (meta.cluster_id, meta.node_id) == ("a:b", 1)


@pytest.mark.parametrize(
    "text", ["version=1\n", "version=9\ncluster.id=a\nnode.id=1\n", "version=1\ncluster.id=a\nnode.id=x\n"]
)
def test_errors_in_meta_properties_name_the_file(files: FaultyFiles, text: str) -> None:
    files.write_atomic("/d/meta.properties", text.encode())
    with pytest.raises(ValueError, match=r"/d/meta\.properties"):
        checkpoints.read_meta_properties(files, "/d")


def test_partition_metadata(files: FaultyFiles) -> None:
    assert checkpoints.read_partition_metadata(files, "/d") is None
    checkpoints.write_partition_metadata(files, "/d", bytes(range(16)))
    assert files.read_bytes("/d/partition.metadata") == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert checkpoints.read_partition_metadata(files, "/d") == bytes(range(16))
    for damaged in (b"", b"version: 0\n", b"version: 0\ntopic_id: short", b"\xff"):
        files.write_atomic("/d/partition.metadata", damaged)
        assert checkpoints.read_partition_metadata(files, "/d") is None
