"""The files of the quorum: quorum-state and snapshots."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.messages.topic_record import TopicRecord
from ottla.quorum.errors import QuorumError
from ottla.quorum.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from ottla.quorum.snapshot import (
    SnapshotId,
    SnapshotJob,
    list_snapshots,
    read_snapshot,
    snapshot_batches,
    snapshot_timestamp_ms,
)
from ottla.records.batch import iter_headers
from ottla.testing.files import FaultyFiles

D = "/d"
SEVEN = SnapshotId(7, 2)
TOPICS = [TopicRecord(name=f"t{i}", topic_id=i.to_bytes(16)) for i in range(100)]


def written(files: FaultyFiles, snapshot_id: SnapshotId = SEVEN) -> str:
    files.mkdir(D)
    job = SnapshotJob(files, D, snapshot_id, snapshot_batches(TOPICS, snapshot_id, 555, 1000))
    job.run()
    assert job.error is None
    return f"{D}/{snapshot_id.file_name}"


@given(
    leader_id=st.integers(-1, 2**31 - 1),
    leader_epoch=st.integers(0, 2**31 - 1),
    voted_id=st.integers(-1, 2**31 - 1),
    voted_directory_id=st.binary(min_size=16, max_size=16),
    voters=st.lists(st.integers(0, 100)),
    version=st.integers(0, 1),
)
def test_quorum_state_round_trip(**fields: Any) -> None:
    files = FaultyFiles()
    files.mkdir(D)
    assert read_quorum_state(files, D) is None
    state = QuorumState(**fields)
    write_quorum_state(files, D, state)
    again = read_quorum_state(files, D)
    assert again is not None
    assert again.render() == state.render()
    assert (again.leader_id, again.leader_epoch) == (state.leader_id, state.leader_epoch)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b'{"data_version":2,"leaderEpoch":1}', b'{"data_version":0}', b'{"leaderEpoch":1}'],
)
def test_a_quorum_state_that_cannot_be_read(files: FaultyFiles, data: bytes) -> None:
    files.mkdir(D)
    files.write_atomic(f"{D}/quorum-state", data)
    with pytest.raises(QuorumError, match="quorum-state"):
        read_quorum_state(files, D)


def test_a_quorum_state_of_kafka(files: FaultyFiles) -> None:
    files.mkdir(D)
    directory_id = "AAAAAAAAAAAAAAAAAAAAAA"
    text = (
        f'{{"leaderId":3,"leaderEpoch":9,"votedId":-1,"votedDirectoryId":"{directory_id}","data_version":1}}'
    ).encode()
    files.write_atomic(f"{D}/quorum-state", text)
    state = read_quorum_state(files, D)
    assert state is not None
    assert (state.leader_id, state.leader_epoch, state.version, state.render()) == (3, 9, 1, text)


def test_snapshot_round_trip(files: FaultyFiles) -> None:
    path = written(files)
    assert path == "/d/00000000000000000007-0000000002.checkpoint"
    assert list_snapshots(files, D) == [(7, 2)]
    assert list(read_snapshot(files, D, SnapshotId(7, 2))) == TOPICS
    assert snapshot_timestamp_ms(files, D, SnapshotId(7, 2)) == 555
    data = files.read_bytes(path)
    assert data is not None
    headers = [header for _, header in iter_headers(data)]
    assert [header.is_control for header in headers] == [True, False, True]
    assert [header.base_offset for header in headers] == [0, 1, 101]
    assert {header.leader_epoch for header in headers} == {2}


def test_names_that_are_no_snapshots(files: FaultyFiles) -> None:
    written(files)
    written(files, SnapshotId(3, 9))
    for name in ("bootstrap.checkpoint", "1-2.checkpoint", "quorum-state", "00000000000000000007.snapshot"):
        files.write_atomic(f"{D}/{name}", b"x")
    files.write_atomic(f"{D}/{SnapshotId(9, 2).file_name}.tmp", b"x")
    assert list_snapshots(files, D) == [(3, 9), (7, 2)]
    assert not files.exists(f"{D}/{SnapshotId(9, 2).file_name}.tmp")


@given(st.data())
def test_damage_anywhere_is_noticed(data: st.DataObject) -> None:
    files = FaultyFiles()
    path = written(files)
    size = files.size(path)
    if data.draw(st.booleans()):
        files.cut(path, data.draw(st.integers(0, size - 1)))
    else:
        # Offset and leader epoch of a batch are not under its checksum.
        position = data.draw(st.integers(0, size - 1))
        content = files.read_bytes(path)
        assert content is not None
        starts = [start for start, _ in iter_headers(content)]
        free = {start + i for start in starts for i in (*range(8), *range(12, 16))}
        if position in free:
            return
        files.flip_bit(path, position, data.draw(st.integers(0, 7)))
    with pytest.raises(QuorumError, match="damaged"):
        read_snapshot(files, D, SnapshotId(7, 2))


def test_a_snapshot_that_is_gone(files: FaultyFiles) -> None:
    files.mkdir(D)
    with pytest.raises(QuorumError, match="gone"):
        read_snapshot(files, D, SnapshotId(1, 1))
