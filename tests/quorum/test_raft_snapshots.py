"""Followers that need a snapshot: they learn its id, fetch it in chunks, and continue after it."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_snapshot_request import (
    FetchSnapshotRequest,
    PartitionSnapshot,
    TopicSnapshot,
)
from ottla.protocol.messages.fetch_snapshot_request import SnapshotId as WireSnapshotId
from ottla.quorum.raft import effects as fx
from ottla.quorum.raft import events as ev
from ottla.quorum.snapshot import SnapshotId
from tests.support.quorum.raft_cluster import CLUSTER, Cluster, Node


def fetch_snapshot(end_offset: int, epoch: int, position: int = 0, **fields: Any) -> FetchSnapshotRequest:
    partition = PartitionSnapshot(
        snapshot_id=WireSnapshotId(end_offset=end_offset, epoch=epoch),
        position=position,
        **({"current_leader_epoch": 1} | fields),
    )
    topic = TopicSnapshot(name="__cluster_metadata", partitions=[partition])
    return FetchSnapshotRequest(cluster_id=CLUSTER, replica_id=2, topics=[topic])


def with_snapshot(cluster: Cluster) -> tuple[Node, Node, SnapshotId]:
    """A leader that has only a snapshot of what a follower lacks."""
    leader = cluster.elect()
    cluster.run_until(cluster.is_caught_up)
    late = next(node for node in cluster.nodes.values() if node is not leader)
    cluster.crash(late)
    for value in (b"a", b"b", b"c"):
        cluster.append(leader, value)
    cluster.run_until(lambda: leader.machine.high_watermark == 4)
    snapshot_id = leader.take_snapshot()
    cluster.append(leader, b"d")
    cluster.run_until(lambda: leader.machine.high_watermark == 5)
    return leader, late, snapshot_id


def test_a_late_follower_gets_a_snapshot_in_pieces() -> None:
    cluster = Cluster()
    leader, late, snapshot_id = with_snapshot(cluster)
    assert snapshot_id == SnapshotId(4, 1)
    cluster.seen.clear()
    cluster.restart(late)
    cluster.run_until(cluster.is_caught_up)
    steps = [
        (type(effect).__name__, getattr(effect, "position", None))
        for node_id, effect in cluster.seen
        if node_id == late.node_id
        and isinstance(effect, fx.BeginSnapshot | fx.WriteSnapshot | fx.InstallSnapshot | fx.HighWatermark)
    ]
    assert steps == [
        ("BeginSnapshot", None),
        ("WriteSnapshot", 0),
        ("WriteSnapshot", 4),
        ("WriteSnapshot", 8),
        ("InstallSnapshot", None),
        ("HighWatermark", None),
        ("HighWatermark", None),
    ]
    assert (late.log.start_offset, late.log.end_offset) == (4, 5)
    assert late.log.prefix(5) == leader.log.prefix(5)


def test_a_snapshot_that_is_no_good_is_fetched_again() -> None:
    cluster = Cluster()
    _, late, snapshot_id = with_snapshot(cluster)
    install = cluster._install
    tries = []

    def refuse_once(node: Node, wanted: SnapshotId) -> None:
        tries.append(wanted)
        if len(tries) > 1:
            install(node, wanted)
        else:
            cluster.later(node.node_id, node.node_id, 0, lambda: cluster.step(node, ev.SnapshotFailed()))

    cluster._install = refuse_once  # type: ignore[method-assign]
    cluster.restart(late)
    cluster.run_until(cluster.is_caught_up)
    assert tries == [snapshot_id, snapshot_id]


def test_a_deleted_snapshot_is_replaced_by_a_newer_one() -> None:
    cluster = Cluster()
    leader, late, snapshot_id = with_snapshot(cluster)
    cluster.seen.clear()
    cluster.restart(late)
    cluster.run_until(lambda: any(isinstance(effect, fx.WriteSnapshot) for _, effect in cluster.seen))
    newer = leader.take_snapshot()
    del leader.log.snapshots[snapshot_id]
    cluster.run_until(cluster.is_caught_up)
    begun = [effect.snapshot_id for _, effect in cluster.seen if isinstance(effect, fx.BeginSnapshot)]
    assert begun == [snapshot_id, newer]


def test_no_voter_stands_while_its_log_is_being_replaced() -> None:
    cluster = Cluster()
    leader, late, _ = with_snapshot(cluster)
    cluster._install = lambda node, wanted: None  # type: ignore[method-assign]
    cluster.restart(late)
    cluster.run_until(lambda: late.machine.node.installing is not None)
    cluster.crash(leader)
    cluster.run(20_000)
    assert late.machine.role in ("follower", "unattached")


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (fetch_snapshot(4, 1, 10), ErrorCode.POSITION_OUT_OF_RANGE),
        (fetch_snapshot(4, 1, -1), ErrorCode.POSITION_OUT_OF_RANGE),
        (fetch_snapshot(3, 1), ErrorCode.SNAPSHOT_NOT_FOUND),
        (fetch_snapshot(0, 0), ErrorCode.SNAPSHOT_NOT_FOUND),
        (fetch_snapshot(4, 1, current_leader_epoch=0), ErrorCode.FENCED_LEADER_EPOCH),
        (fetch_snapshot(4, 1, current_leader_epoch=2), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (fetch_snapshot(4, 1, 9), ErrorCode.NONE),
    ],
)
def test_errors_of_the_request(request_: FetchSnapshotRequest, expected: int) -> None:
    cluster = Cluster()
    leader, _, _ = with_snapshot(cluster)
    response: Any = cluster.replies[cluster.ask(leader.node_id, request_)]
    partition = response.topics[0].partitions[0]
    assert partition.error_code == expected
    if expected == ErrorCode.NONE:
        assert (partition.size, partition.position, len(partition.unaligned_records)) == (10, 9, 1)
    else:
        assert partition.current_leader.leader_id == leader.node_id
