"""The quorum of one voter: epochs, replay, restarts and crashes, snapshots and retention."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.controller.image.records import image_records
from ottla.protocol.messages.leader_change_message import LeaderChangeMessage
from ottla.protocol.messages.topic_record import TopicRecord
from ottla.protocol.uuids import METADATA_TOPIC_ID
from ottla.quorum import framing
from ottla.quorum.errors import QuorumError
from ottla.quorum.snapshot import SnapshotId, snapshot_batches
from ottla.records.batch import iter_headers
from ottla.records.control import parse_control_record
from ottla.records.record import iter_records
from ottla.storage.errors import CorruptLog, DiskFull, StorageError
from ottla.storage.files import OsFiles
from ottla.testing.files import FaultyFiles

DIRECTORY = "/data/__cluster_metadata-0"
LOG = f"{DIRECTORY}/00000000000000000000.log"
NODE_CLASS: list[Any] = []  # for hypothesis, which takes no fixtures of one example


@pytest.fixture(autouse=True)
def _node_class(new_node: Any) -> None:
    NODE_CLASS[:] = [new_node]


def batches(files: Any) -> list[tuple[int, Any]]:
    data = files.read_bytes(LOG)
    assert data is not None
    return [(position, header) for position, header in iter_headers(data)]


def test_the_first_start(files: FaultyFiles, node: Any) -> None:
    quorum = node.quorum
    assert quorum.epoch == 1
    assert quorum.next_offset == 2
    assert [(offset, epoch) for offset, epoch, _ in node.replayed] == [(1, 1)]
    assert node.image.features == {"metadata.version": 30}
    assert quorum.log.topic_id == METADATA_TOPIC_ID
    assert quorum.high_watermark == 0, "nothing is committed before it is on disk"
    assert quorum.sync(0) == 2
    state = json.loads(files.read_bytes(f"{DIRECTORY}/quorum-state") or b"")
    assert state["leaderId"] == 1
    assert state["leaderEpoch"] == 1
    assert state["currentVoters"] == [{"voterId": 1}]
    assert state["data_version"] == 0


def test_contents_of_the_log(files: FaultyFiles, node: Any) -> None:
    assert node.create("a", "b") == (2, 3)
    node.open()
    data = files.read_bytes(LOG)
    found = batches(files)
    assert [header.is_control for _, header in found] == [True, False, False, True]
    assert [header.leader_epoch for _, header in found] == [1, 1, 1, 3]
    assert [header.base_offset for _, header in found] == [0, 1, 2, 4]
    assert all(header.producer_id == -1 for _, header in found)
    (record,) = iter_records(data, *found[0])
    change = parse_control_record(record).message
    assert isinstance(change, LeaderChangeMessage)
    assert (change.leader_id, [voter.voter_id for voter in change.voters]) == (1, [1])
    values = list(iter_records(data, *found[2]))
    assert values[0].key is None
    assert values[0].value is not None
    assert values[0].value[:3] == bytes((1, 2, 0)), "frame version, record type, version"


def test_every_start_is_a_new_epoch_and_finds_all_records(node: Any) -> None:
    for number in range(1, 4):
        node.create(f"t{number}")
        node.quorum.sync(0)
        node.quorum.close(0)
        node.open(clean=True)
        assert node.quorum.epoch == 2 * number + 1, "the epoch that was led is left, then a new one begun"
        assert node.topics == {f"t{i}" for i in range(1, number + 1)}
    assert node.image.features == {"metadata.version": 30}


def test_the_epoch_is_known_without_its_file(files: FaultyFiles, node: Any) -> None:
    assert node.open().epoch == 3
    files.remove(f"{DIRECTORY}/quorum-state")
    assert node.open().epoch == 4
    files.write_atomic(f"{DIRECTORY}/quorum-state", b"")
    assert node.open().epoch == 5


def test_the_directory_of_another_voter_is_refused_and_left_as_it_was(files: FaultyFiles, node: Any) -> None:
    node.quorum.close(0)
    before = {name: files.read_bytes(f"{DIRECTORY}/{name}") for name in ("quorum-state", LOG[-24:])}
    with pytest.raises(QuorumError, match=r"quorum of 1, not of 2: see controller\.quorum\.voters"):
        node.open(node_id=2)
    assert {name: files.read_bytes(f"{DIRECTORY}/{name}") for name in before} == before


def test_a_large_decision_is_one_batch_and_a_huge_one_several(
    files: FaultyFiles, node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"topic-{i}" for i in range(5000)]
    assert node.create(*names) == (2, 5001)
    assert len(batches(files)) == 3
    monkeypatch.setattr(framing, "BATCH_BYTES_MAX", 4000)
    node.create(*[f"more-{i}" for i in range(1000)])
    assert len(batches(files)) > 10
    before = node.topics
    node.open()
    assert node.topics == before
    assert [offset for offset, _, _ in node.replayed] == list(range(1, 6002))


def test_a_sync_commits_records_appended_before_it_started(node: Any) -> None:
    quorum = node.quorum
    node.create("a")
    job = quorum.begin_sync()
    assert job is not None
    node.create("b")
    job.run()
    assert quorum.finish_sync(job, 0) == 3
    assert quorum.next_offset == 4
    assert quorum.sync(0) == 4
    assert quorum.begin_sync() is None


def test_a_disk_that_fails_to_sync_commits_nothing(files: FaultyFiles, node: Any) -> None:
    node.quorum.sync(0)
    node.create("a")
    job = node.quorum.begin_sync()
    assert job is not None
    files.fail_under("/data", only_syncs=True)
    job.run()
    with pytest.raises(StorageError):
        node.quorum.finish_sync(job, 0)
    assert node.quorum.high_watermark == 2


def test_a_full_disk_leaves_nothing_of_a_decision(
    files: FaultyFiles, node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.quorum.sync(0)
    monkeypatch.setattr(framing, "BATCH_BYTES_MAX", 4000)
    files.room_bytes = 10_000
    records = [TopicRecord(name=f"t{i}", topic_id=i.to_bytes(16)) for i in range(1000)]
    with pytest.raises(DiskFull):
        node.quorum.append(records, 0)
    assert node.quorum.next_offset == 2
    files.room_bytes = None
    assert node.create("a") == (2, 2)
    node.quorum.sync(0)
    files.crash()
    node.open()
    assert node.topics == {"a"}


@settings(max_examples=60, deadline=None)
@given(
    st.integers(), st.lists(st.sampled_from(["create", "sync", "snapshot", "crash", "close"]), max_size=25)
)
def test_committed_records_survive_any_crash(seed: int, steps: list[str]) -> None:
    files = FaultyFiles()
    node = NODE_CLASS[0](files)
    rng = random.Random(seed)
    committed: set[str] = set()
    epochs = [node.quorum.epoch]
    number = 0
    for step in [*steps, "crash"]:
        if step == "create":
            number += 1
            node.create(f"t{number}")
        elif step == "sync":
            node.quorum.sync(0)
            committed = node.topics
        elif step == "snapshot":
            node.snapshot()
            committed = node.topics
        else:
            if step == "close":
                node.quorum.close(0)
                committed = node.topics
            files.crash(rng)
            before = node.topics
            node.open()
            assert committed <= node.topics <= before
            assert node.quorum.epoch >= epochs[-1]
            assert node.image.features == {"metadata.version": 30}
            epochs.append(node.quorum.epoch)
            node.quorum.sync(0)
            committed = node.topics


def test_a_torn_tail_is_cut(files: FaultyFiles, node: Any) -> None:
    node.create("a")
    node.create("b")
    node.quorum.sync(0)
    files.cut(LOG, files.size(LOG) - 3)
    node.open()
    assert node.topics == {"a"}
    node.create("c")
    node.open()
    assert node.topics == {"a", "c"}


def test_damage_is_found_even_after_a_clean_stop(files: FaultyFiles, node: Any) -> None:
    node.create("a")
    node.create("b")
    node.quorum.close(0)
    position, header = batches(files)[2]
    assert header.base_offset == 2
    files.flip_bit(LOG, position + 70)
    with pytest.raises((QuorumError, CorruptLog), match=r"offset 2|corrupt|damaged|checksum"):
        node.open(clean=True)


def test_snapshots_and_the_log_after_them(files: FaultyFiles, node: Any) -> None:
    node.create("a")
    node.snapshot()
    assert node.quorum.latest_snapshot == (3, 1)
    assert files.exists(f"{DIRECTORY}/00000000000000000003-0000000001.checkpoint")
    node.create("b")
    node.open()
    assert node.topics == {"a", "b"}
    assert [(offset, epoch) for offset, epoch, _ in node.replayed] == [(2, 1), (2, 1), (3, 1)]


def test_snapshots_are_due_by_bytes_and_by_time(new_node: Any, files: FaultyFiles) -> None:
    node = new_node(
        files,
        metadata_log_max_record_bytes_between_snapshots="300",
        metadata_log_max_snapshot_interval_ms="5000",
    )
    quorum = node.quorum
    quorum.sync(0)
    assert quorum.maybe_snapshot(lambda: image_records(node.image), node.now_ms) is None
    node.create("a", "b", "c", "d", "e", "f")
    assert not quorum.wants_snapshot(node.now_ms), "not committed yet"
    quorum.sync(0)
    job = quorum.maybe_snapshot(lambda: image_records(node.image), node.now_ms)
    assert job is not None
    assert not quorum.wants_snapshot(node.now_ms), "one at a time"
    job.run()
    quorum.finish_snapshot(job, node.now_ms)
    assert not quorum.wants_snapshot(node.now_ms + 6000), "nothing is new"
    node.create("g")
    quorum.sync(0)
    assert not quorum.wants_snapshot(node.now_ms + 4000)
    assert quorum.wants_snapshot(node.now_ms + 6000)


def test_a_snapshot_that_cannot_be_written_is_tried_again(files: FaultyFiles, node: Any) -> None:
    node.quorum.sync(0)
    job = node.quorum.maybe_snapshot(lambda: image_records(node.image), 0, force=True)
    files.room_bytes = 10
    job.run()
    node.quorum.finish_snapshot(job, 0)
    assert node.quorum.latest_snapshot is None
    files.room_bytes = None
    node.snapshot()
    assert node.quorum.latest_snapshot is not None


def test_a_damaged_snapshot_gives_way_to_the_one_before(files: FaultyFiles, node: Any) -> None:
    node.create("a")
    node.snapshot()
    node.create("b")
    node.snapshot()
    latest = node.quorum.latest_snapshot
    files.flip_bit(f"{DIRECTORY}/{latest.file_name}", 200)
    node.open()
    assert node.topics == {"a", "b"}
    assert node.quorum.latest_snapshot.end_offset < latest.end_offset


def test_the_log_continues_after_a_newer_snapshot(files: FaultyFiles, node: Any) -> None:
    node.create("a", "b")
    node.snapshot()
    end = node.quorum.latest_snapshot.end_offset
    files.cut(LOG, 100)
    node.open()
    assert node.topics == {"a", "b"}
    assert node.quorum.next_offset == end + 1
    node.create("c")
    node.open()
    assert node.topics == {"a", "b", "c"}


def test_retention_keeps_the_newest_snapshot_and_drops_older_data(new_node: Any, files: FaultyFiles) -> None:
    node = new_node(files, metadata_max_retention_bytes="1", metadata_log_segment_bytes="8388608")
    for round_number in range(3):
        node.create(*[f"round-{round_number}-{'x' * 200}-{i}" for i in range(6000)])
        node.snapshot()
    names = files.listdir(DIRECTORY)
    assert len([name for name in names if name.endswith(".checkpoint")]) == 1
    assert [name for name in names if name.endswith(".log")] == [f"{node.quorum.next_offset:020d}.log"]
    assert node.quorum.log.log_start_offset == node.quorum.latest_snapshot.end_offset
    topics = node.topics
    node.quorum.close(0)
    node.open()
    assert node.topics == topics
    assert len(topics) == 18_000


def test_a_log_without_its_beginning_and_without_snapshot_is_refused(
    files: FaultyFiles, new_node: Any
) -> None:
    node = new_node(files, metadata_max_retention_bytes="1", metadata_log_segment_bytes="8388608")
    node.create(*[f"round-{'x' * 200}-{i}" for i in range(6000)])
    node.snapshot()
    node.quorum.log.roll(0)
    node.create("a")
    node.snapshot()
    for name in files.listdir(DIRECTORY):
        if name.endswith(".checkpoint"):
            files.remove(f"{DIRECTORY}/{name}")
    assert node.quorum.log.log_start_offset > 0
    with pytest.raises(QuorumError, match="without a complete snapshot"):
        node.open()


def test_on_the_real_file_system(tmp_path: Path, new_node: Any) -> None:
    node = new_node(OsFiles(), str(tmp_path))
    node.create("a")
    node.snapshot()
    node.create("b")
    node.quorum.close(node.now_ms)
    node.open(clean=True)
    assert node.topics == {"a", "b"}
    node.quorum.log.abandon()
    node.open()
    assert node.topics == {"a", "b"}
    assert node.quorum.epoch == 5
    node.quorum.close(node.now_ms)


def test_the_log_after_a_snapshot_survives_the_loss_of_its_start(files: FaultyFiles, node: Any) -> None:
    """A snapshot drops the epochs before it; the segment with the records may still begin there."""
    node.create("a")
    node.snapshot()
    node.create("b")
    node.quorum.sync(0)  # brings the shortened list of epochs to the disk
    for _ in range(2):
        files.crash()
        node.open()
        assert node.topics == {"a", "b"}
        assert node.quorum.log.log_start_offset == node.quorum.latest_snapshot.end_offset


def test_a_snapshot_that_was_overtaken_by_the_leaders_is_dropped(files: FaultyFiles, node: Any) -> None:
    node.create("a")
    node.quorum.sync(0)
    raft_log = node.quorum.raft_log
    job = node.quorum.maybe_snapshot(lambda: image_records(node.image), 0, force=True)
    job.run()
    newer = SnapshotId(100, 5)
    raft_log.write_snapshot(newer, 0, b"".join(snapshot_batches(image_records(node.image), newer, 0, 0)))
    raft_log.install_snapshot(newer)
    raft_log.finish_snapshot(job, 0)
    assert raft_log.latest_snapshot == newer
    assert not files.exists(f"{DIRECTORY}/{job.snapshot_id.file_name}")
    old_image_end = job.snapshot_id.end_offset
    assert (
        raft_log.maybe_snapshot(lambda: image_records(node.image), old_image_end, 10**12, force=True) is None
    ), "an image of before the leader's snapshot is worth none"


def test_only_applied_records_trigger_a_snapshot(new_node: Any, files: FaultyFiles) -> None:
    node = new_node(files, metadata_log_max_record_bytes_between_snapshots="300")
    node.quorum.sync(0)
    node.create(*"abcdef")
    node.quorum.sync(0)
    job = node.quorum.maybe_snapshot(lambda: image_records(node.image), 0)
    node.create(*"ghijklmnopqrst")
    node.quorum.sync(0)
    job.run()
    node.quorum.finish_snapshot(job, 0)
    assert node.quorum.wants_snapshot(0), "what was applied while it was written is not in it"
