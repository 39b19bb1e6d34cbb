"""Formatting: what the directories of a dynamic quorum hold before the first start."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from ottla.config.load import broker_config
from ottla.protocol.messages.kraft_version_record import KRaftVersionRecord
from ottla.protocol.messages.voters_record import VotersRecord
from ottla.protocol.uuids import uuid_to_text
from ottla.quorum.format import AlreadyFormatted, Formatter, parse_initial_controllers
from ottla.quorum.raft.voters import Endpoint, VoterSet
from ottla.quorum.raft_log import RaftLog
from ottla.quorum.settings import MetadataLogSettings
from ottla.quorum.snapshot import SnapshotId, snapshot_header_messages
from ottla.storage.checkpoints import read_meta_properties
from ottla.storage.errors import DirectoryInUse
from ottla.testing.files import FaultyFiles

CLUSTER = uuid_to_text(b"cluster of tests")
ENDPOINT = Endpoint("CONTROLLER", "localhost", 9093)
LIST = ",".join(f"{n}@host{n}:909{n}:{uuid_to_text(bytes([n]) * 16)}" for n in (1, 2, 3))


def formatter(files: FaultyFiles, node_id: int = 1, **options: Any) -> Formatter:
    numbers = itertools.count(1)
    return Formatter(
        files,
        options.get("log_dirs", ["/data"]),
        "/data",
        node_id=node_id,
        cluster_id=options.get("cluster_id", CLUSTER),
        new_uuid=lambda: next(numbers).to_bytes(16),
    )


def open_log(files: FaultyFiles) -> RaftLog:
    return RaftLog.open(files, "/data", MetadataLogSettings(broker_config({})), node_id=1, now_ms=5)


def test_the_first_of_a_quorum_names_itself(files: FaultyFiles, new_node: Any) -> None:
    voters = formatter(files, log_dirs=["/data", "/more"]).standalone([ENDPOINT], 5)
    meta, more = (read_meta_properties(files, path) for path in ("/data", "/more"))
    assert meta is not None
    assert more is not None
    assert (meta.cluster_id, meta.node_id, more.node_id) == (CLUSTER, 1, 1)
    assert meta.directory_id != more.directory_id
    assert voters.has(1, meta.directory_id)
    history = open_log(files).voter_history(VoterSet())
    assert (history.kraft_version, history.voters, history.voters_offset) == (1, voters, -1)
    node = new_node(files, directory_id=meta.directory_id)
    assert (node.quorum.role, node.quorum.kraft_version) == ("leader", 1)


def test_the_checkpoint_is_as_kafka_writes_it(files: FaultyFiles) -> None:
    formatter(files).standalone([ENDPOINT], 5)
    _, version, voters = snapshot_header_messages(files, "/data/__cluster_metadata-0", SnapshotId(0, 0))
    assert files.listdir("/data/__cluster_metadata-0") == ["00000000000000000000-0000000000.checkpoint"]
    assert isinstance(version, KRaftVersionRecord)
    assert version.kraft_version == 1
    assert isinstance(voters, VotersRecord)
    (voter,) = voters.voters
    assert [(each.name, each.host, each.port) for each in voter.endpoints] == [ENDPOINT]


def test_several_that_begin_together_have_the_same_list(files: FaultyFiles) -> None:
    voters = parse_initial_controllers(LIST, "CONTROLLER")
    formatter(files, 2).with_voters(voters, 5)
    meta = read_meta_properties(files, "/data")
    assert meta is not None
    assert meta.directory_id == bytes([2]) * 16, "the list says which directory it is"
    assert open_log(files).voter_history(VoterSet()).voters == voters
    assert voters.by_id[3].endpoints == (Endpoint("CONTROLLER", "host3", 9093),)


def test_a_controller_that_joins_later_has_no_voters(files: FaultyFiles) -> None:
    formatter(files, 4).without_voters()
    assert read_meta_properties(files, "/data") is not None
    assert not files.exists("/data/__cluster_metadata-0")


def test_nothing_is_formatted_twice(files: FaultyFiles) -> None:
    formatter(files).standalone([ENDPOINT], 5)
    before = read_meta_properties(files, "/data")
    for again in (lambda each: each.without_voters(), lambda each: each.standalone([ENDPOINT], 6)):
        with pytest.raises(AlreadyFormatted):
            again(formatter(files, 2))
    assert read_meta_properties(files, "/data") == before


def test_metadata_is_not_formatted_over(files: FaultyFiles, new_node: Any) -> None:
    new_node(files).quorum.close(0)
    with pytest.raises(AlreadyFormatted, match="contains metadata"):
        formatter(files).standalone([ENDPOINT], 5)
    assert read_meta_properties(files, "/data") is None


def test_formatting_that_was_interrupted_is_done_again(files: FaultyFiles) -> None:
    formatter(files).standalone([ENDPOINT], 5)
    files.remove("/data/meta.properties")
    formatter(files).standalone([ENDPOINT], 6)
    assert read_meta_properties(files, "/data") is not None


def test_a_directory_in_use_is_left_alone(files: FaultyFiles) -> None:
    files.mkdir("/data")
    lock = files.lock("/data/.lock")
    with pytest.raises(DirectoryInUse, match="another process"):
        formatter(files).without_voters()
    lock.release()
    formatter(files).without_voters()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1@host:9093",
        "x@host:9093:AAAAAAAAAAAAAAAAAAAAAA",
        "1@host:port:AAAAAAAAAAAAAAAAAAAAAQ",
        "1@host:9093:short",
        f"{LIST},{LIST}",
        LIST.replace("2@", "1@"),
        LIST.replace(uuid_to_text(bytes([2]) * 16), uuid_to_text(bytes([1]) * 16)),
    ],
)
def test_lists_that_cannot_be(text: str) -> None:
    with pytest.raises(ValueError, match="initial controller"):
        parse_initial_controllers(text, "CONTROLLER")


def test_refused_formats_of_a_quorum(files: FaultyFiles) -> None:
    voters = parse_initial_controllers(LIST, "CONTROLLER")
    with pytest.raises(ValueError, match="not one of"):
        formatter(files, 9).with_voters(voters, 5)
    with pytest.raises(ValueError, match="uuid"):
        formatter(files, cluster_id="not an id")
