"""The directory of a dynamic quorum, as `kafka-storage format --standalone` of Kafka 4.3 makes it."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from ottla.protocol.messages.kraft_version_record import KRaftVersionRecord
from ottla.protocol.messages.voters_record import VotersRecord
from ottla.quorum.errors import QuorumError
from ottla.quorum.quorum_state import read_quorum_state
from ottla.quorum.snapshot import SnapshotId, snapshot_header_messages
from ottla.records.control import kraft_version_batch
from ottla.testing.files import FaultyFiles

DIRECTORY = "/data/__cluster_metadata-0"
FORMATTED = SnapshotId(0, 0)
CHECKPOINT = base64.b64decode(
    "AAAAAAAAAAAAAACaAAAAAAKdfuiyACAAAAACAAABoeIf2zAAAAGh4h/bMP//////////////////AAAAAyoAAAAIAAAA"
    "AxYAAAAAAaHiH9snAAAeAAACCAAAAAUKAAAAAQAAggEAAAQIAAAABm4AAAIAAAAB7qFgN/RvRTm4ttsg/4dSJwILQ09O"
    "VFJPTExFUgoxMjcuMC4wLjFLwQAAAAABAAAAAAAAAAAAAAADAAAAPwAAAAAC9XOeuQAgAAAAAAAAAaHiH9s9AAABoeIf"
    "2z3//////////////////wAAAAEaAAAACAAAAAQGAAAAAA=="
)
QUORUM_STATE = (
    b'{"leaderId":1,"leaderEpoch":7,"votedId":-1,'
    b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
)


@pytest.fixture
def formatted(files: FaultyFiles) -> FaultyFiles:
    files.mkdir("/data")
    files.mkdir(DIRECTORY)
    files.write_atomic(f"{DIRECTORY}/{FORMATTED.file_name}", CHECKPOINT)
    files.write_atomic(f"{DIRECTORY}/quorum-state", QUORUM_STATE)
    return files


def dynamic_records(files: FaultyFiles, snapshot: SnapshotId) -> list[object]:
    return snapshot_header_messages(files, DIRECTORY, snapshot)[1:]


def test_a_formatted_directory_gets_its_first_records(formatted: FaultyFiles, new_node: Any) -> None:
    node = new_node(formatted)
    assert node.image.features == {"metadata.version": 30}, "the checkpoint of the format has no records"
    assert (node.quorum.kraft_version, node.quorum.epoch) == (1, 8)


def test_its_version_and_voters_are_kept(formatted: FaultyFiles, new_node: Any) -> None:
    kept = dynamic_records(formatted, FORMATTED)
    version, voters = kept
    assert isinstance(version, KRaftVersionRecord)
    assert version.kraft_version == 1
    assert isinstance(voters, VotersRecord)
    assert [voter.voter_id for voter in voters.voters] == [1]
    node = new_node(formatted)
    state = read_quorum_state(formatted, DIRECTORY)
    assert state is not None
    assert (state.version, state.leader_id, state.leader_epoch) == (1, 1, 8)
    node.create("a")
    node.snapshot()
    latest = node.quorum.latest_snapshot
    assert latest > FORMATTED
    assert [record.encode(0) for record in dynamic_records(formatted, latest)] == [  # type: ignore[attr-defined]
        record.encode(0) for record in (version, voters)
    ]


def test_the_records_may_stand_in_the_log(files: FaultyFiles, new_node: Any) -> None:
    node = new_node(files)
    node.quorum.log.append_own(kraft_version_batch(1, 5, leader_epoch=1), 1, 5)
    node.open()
    assert node.quorum.kraft_version == 1
    node.snapshot()
    (version,) = dynamic_records(files, node.quorum.latest_snapshot)
    assert isinstance(version, KRaftVersionRecord)


@pytest.mark.parametrize("what", ["another node", "a version to come"])
def test_what_is_refused_stays_as_it_was(formatted: FaultyFiles, new_node: Any, what: str) -> None:
    node = new_node(formatted)
    if what == "a version to come":
        node.quorum.log.append_own(kraft_version_batch(2, 5, leader_epoch=8), 8, 5)
    node.quorum.close(node.now_ms)
    before = {name: formatted.read_bytes(f"{DIRECTORY}/{name}") for name in formatted.listdir(DIRECTORY)}
    with pytest.raises(QuorumError, match="quorum of 1" if what == "another node" else "kraft.version=2"):
        node.open(node_id=2 if what == "another node" else 1, clean=True)
    after = {name: formatted.read_bytes(f"{DIRECTORY}/{name}") for name in formatted.listdir(DIRECTORY)}
    assert after["quorum-state"] == before["quorum-state"]
    log = "00000000000000000000.log"
    assert after[log] == before[log]
