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


def directory_of_the_format(files: FaultyFiles) -> bytes:
    _, voters = dynamic_records(files, FORMATTED)
    assert isinstance(voters, VotersRecord)
    return voters.voters[0].voter_directory_id


def test_a_formatted_directory_gets_its_first_records(formatted: FaultyFiles, new_node: Any) -> None:
    node = new_node(formatted, directory_id=directory_of_the_format(formatted))
    assert node.image.features == {"metadata.version": 30}, "the checkpoint of the format has no records"
    assert (node.quorum.kraft_version, node.quorum.epoch) == (1, 9)


def test_its_version_and_voters_are_kept(formatted: FaultyFiles, new_node: Any) -> None:
    kept = dynamic_records(formatted, FORMATTED)
    version, voters = kept
    assert isinstance(version, KRaftVersionRecord)
    assert version.kraft_version == 1
    assert isinstance(voters, VotersRecord)
    assert [voter.voter_id for voter in voters.voters] == [1]
    node = new_node(formatted, directory_id=directory_of_the_format(formatted))
    state = read_quorum_state(formatted, DIRECTORY)
    assert state is not None
    assert (state.version, state.leader_id, state.leader_epoch) == (1, 1, 9)
    node.create("a")
    node.snapshot()
    latest = node.quorum.latest_snapshot
    assert latest > FORMATTED
    assert [record.encode(0) for record in dynamic_records(formatted, latest)] == [  # type: ignore[attr-defined]
        record.encode(0) for record in (version, voters)
    ]


def test_the_records_may_stand_in_the_log(files: FaultyFiles, new_node: Any) -> None:
    node = new_node(files)
    node.quorum.log.append_internal(kraft_version_batch(1, 5, leader_epoch=1), 1, 5)
    node.open()
    assert node.quorum.kraft_version == 1
    node.snapshot()
    version, voters = dynamic_records(files, node.quorum.latest_snapshot)
    assert isinstance(version, KRaftVersionRecord)
    assert isinstance(voters, VotersRecord), "a new leader writes the voters to the log"
    assert [voter.voter_id for voter in voters.voters] == [1]


def contents(files: FaultyFiles) -> dict[str, bytes | None]:
    names = ("quorum-state", "00000000000000000000.log")
    return {name: files.read_bytes(f"{DIRECTORY}/{name}") for name in names}


def test_a_version_to_come_is_refused_and_stays_as_it_was(formatted: FaultyFiles, new_node: Any) -> None:
    node = new_node(formatted, directory_id=directory_of_the_format(formatted))
    node.quorum.log.append_internal(kraft_version_batch(2, 5, leader_epoch=9), 9, 5)
    node.quorum.close(node.now_ms)
    before = contents(formatted)
    with pytest.raises(QuorumError, match=r"kraft\.version=2"):
        node.open(clean=True)
    assert contents(formatted) == before


@pytest.mark.parametrize("changed", ["another node", "another directory"])
def test_a_node_that_is_not_listed_does_not_lead(formatted: FaultyFiles, new_node: Any, changed: str) -> None:
    """It is an observer, and waits to be added; meta.properties names its directory."""
    node = new_node(formatted, directory_id=directory_of_the_format(formatted))
    node.create("a")
    node.quorum.close(node.now_ms)
    before = contents(formatted)["00000000000000000000.log"]
    if changed == "another directory":
        node.directory_id = b"other directory "
    node.open(node_id=2 if changed == "another node" else 1, clean=True)
    assert node.quorum.role != "leader"
    assert contents(formatted)["00000000000000000000.log"] == before
