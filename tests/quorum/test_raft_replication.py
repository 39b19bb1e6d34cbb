"""Fetches: responses of the leader, waiting fetches, the high watermark, and truncation."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from ottla.protocol.messages.describe_quorum_request import PartitionData as AskedPartition
from ottla.protocol.messages.describe_quorum_request import TopicData as AskedTopic
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.protocol.uuids import METADATA_TOPIC_ID
from ottla.quorum.errors import QuorumError
from ottla.quorum.raft import effects as fx
from ottla.quorum.raft import events as ev
from tests.support.quorum.raft_cluster import CLUSTER, Cluster, Node, data_batch


def fetch(
    replica_id: int = 2, max_wait_ms: int = 500, cluster_id: str | None = CLUSTER, **fields: Any
) -> FetchRequest:
    partition = FetchPartition(
        **({"current_leader_epoch": 1, "fetch_offset": 0, "last_fetched_epoch": 0} | fields)
    )
    return FetchRequest(
        cluster_id=cluster_id,
        replica_state=ReplicaState(replica_id=replica_id),
        max_wait_ms=max_wait_ms,
        topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def partition_of(response: Any) -> Any:
    return response.responses[0].partitions[0]


@pytest.fixture
def lead() -> Cluster:
    """Node 1 leads epoch 1 of three; the others are mute: what they would say comes from the test."""
    cluster = Cluster()
    cluster.nodes[1].draw = lambda n: 0
    cluster.nodes[1].start(cluster.now_ms)
    cluster.run_until(lambda: cluster.nodes[1].machine.role == "leader")
    for node_id in (2, 3):
        cluster.nodes[node_id].is_up = False
    cluster.wire.clear()
    cluster.flush(cluster.nodes[1])
    return cluster


def marks(cluster: Cluster) -> list[int]:
    found = [effect.offset for _, effect in cluster.seen if isinstance(effect, fx.HighWatermark)]
    cluster.seen.clear()
    return found


# -- the high watermark --------------------------------------------------------------------------------------


def test_a_majority_with_the_epochs_first_record_commits(lead: Cluster) -> None:
    assert lead.nodes[1].log.end_offset == 1, "the leader begins with its LeaderChange"
    lead.ask(1, fetch(fetch_offset=0))
    assert marks(lead) == []
    lead.ask(1, fetch(fetch_offset=1, last_fetched_epoch=1))
    assert marks(lead) == [1]


def test_the_leader_counts_only_flushed_records(lead: Cluster) -> None:
    lead.auto_flush = False
    node = lead.nodes[1]
    lead.append(node, b"a")
    lead.ask(1, fetch(2, fetch_offset=2, last_fetched_epoch=1))
    assert marks(lead) == [1], "one of three has it on disk, though two have it"
    lead.flush(node)
    assert marks(lead) == [2]
    lead.append(node, b"b")
    lead.ask(1, fetch(2, fetch_offset=3, last_fetched_epoch=1))
    lead.ask(1, fetch(3, fetch_offset=3, last_fetched_epoch=1))
    assert marks(lead) == [3], "two of three are enough, the leader's own disk or not"


def test_records_of_earlier_epochs_are_committed_by_one_of_the_own() -> None:
    cluster = Cluster()
    node = cluster.nodes[1]
    for _ in range(3):
        node.log.append_own(data_batch(b"old", 1), 1)
    node.log.flush()
    node.draw = lambda n: 0
    node.start(cluster.now_ms)
    cluster.run_until(lambda: node.machine.role == "leader")
    for node_id in (2, 3):
        cluster.nodes[node_id].is_up = False
    cluster.wire.clear()
    cluster.flush(node)
    cluster.ask(1, fetch(2, current_leader_epoch=2, fetch_offset=3, last_fetched_epoch=1))
    assert node.machine.high_watermark == 0, "all old records are on a majority, and none is committed"
    cluster.ask(1, fetch(2, current_leader_epoch=2, fetch_offset=4, last_fetched_epoch=2))
    assert node.machine.high_watermark == 4


def test_observers_commit_nothing(lead: Cluster) -> None:
    for observer in (7, 8):
        lead.ask(1, fetch(observer, fetch_offset=1, last_fetched_epoch=1))
    assert marks(lead) == []


# -- waiting -------------------------------------------------------------------------------------------------


def test_a_fetch_waits_for_records(lead: Cluster) -> None:
    token = lead.ask(1, fetch(fetch_offset=1, last_fetched_epoch=1, high_watermark=1))
    assert token not in lead.replies
    lead.append(lead.nodes[1], b"a")
    answer = partition_of(lead.replies[token])
    assert (answer.error_code, answer.high_watermark, len(answer.records) > 0) == (0, 1, True)
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 1)


def test_a_fetch_waits_no_longer_than_it_wants(lead: Cluster) -> None:
    at_once = lead.ask(1, fetch(fetch_offset=1, last_fetched_epoch=1, max_wait_ms=0))
    assert at_once in lead.replies
    token = lead.ask(1, fetch(fetch_offset=1, last_fetched_epoch=1, max_wait_ms=100))
    lead.run(99)
    assert token not in lead.replies
    lead.run(1)
    assert len(partition_of(lead.replies[token]).records) == 0


def test_a_fetch_returns_when_the_high_watermark_rises(lead: Cluster) -> None:
    knows = lead.ask(1, fetch(3, fetch_offset=1, last_fetched_epoch=1, high_watermark=0))
    assert partition_of(lead.replies[knows]).high_watermark == 1
    lead.auto_flush = False
    lead.append(lead.nodes[1], b"a")
    parked = lead.ask(1, fetch(3, fetch_offset=2, last_fetched_epoch=1, high_watermark=1))
    assert parked not in lead.replies
    lead.flush(lead.nodes[1])
    assert partition_of(lead.replies[parked]).high_watermark == 2


def test_waiting_fetches_are_refused_when_the_leader_resigns(lead: Cluster) -> None:
    token = lead.ask(1, fetch(fetch_offset=1, last_fetched_epoch=1, max_wait_ms=500))
    gone = lead.ask(1, fetch(3, fetch_offset=1, last_fetched_epoch=1, max_wait_ms=500))
    lead.step(lead.nodes[1], ev.RequestAbandoned(gone))
    lead.step(lead.nodes[1], ev.Resign(epoch=1))
    assert partition_of(lead.replies[token]).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert gone not in lead.replies


def test_a_resignation_of_another_epoch_is_void(lead: Cluster) -> None:
    lead.step(lead.nodes[1], ev.Resign(epoch=0))
    assert lead.nodes[1].machine.role == "leader"


# -- errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"current_leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 2}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"fetch_offset": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_fetched_epoch": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_fetched_epoch": 2}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_errors_of_a_fetch(lead: Cluster, fields: dict[str, Any], expected: int) -> None:
    response: Any = lead.replies[lead.ask(1, fetch(**fields))]
    assert (response.error_code, partition_of(response).error_code) == (0, expected)
    assert partition_of(response).current_leader.leader_id == 1
    assert [(node.node_id, node.host) for node in response.node_endpoints] == [(1, "node1")]


def test_a_fetch_of_another_cluster_or_topic(lead: Cluster) -> None:
    other: Any = lead.replies[lead.ask(1, fetch(cluster_id="another"))]
    assert other.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert lead.ask(1, fetch(cluster_id=None, max_wait_ms=0)) in lead.replies
    request = fetch()
    request.topics[0].topic_id = b"x" * 16
    wrong: Any = lead.replies[lead.ask(1, request)]
    assert wrong.error_code == ErrorCode.INVALID_REQUEST


def test_a_follower_names_the_leader() -> None:
    cluster = Cluster()
    leader = cluster.elect()
    node = next(each for each in cluster.nodes.values() if each is not leader)
    response: Any = cluster.replies[cluster.ask(node.node_id, fetch())]
    answer = partition_of(response)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (leader.node_id, 1)
    assert [each.port for each in response.node_endpoints] == [9000 + leader.node_id]


# -- divergence ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "epoch", "diverging"),
    [
        (6, 4, None),
        (9, 6, (6, 7)),
        (9, 7, (7, 8)),
        (8, 7, None),
        (5, 3, (3, 3)),
        (7, 5, (4, 6)),
        (2, 2, (2, 0)),
        (0, 0, None),
        (2, 3, None),
    ],
)
def test_where_logs_part(offset: int, epoch: int, diverging: tuple[int, int] | None) -> None:
    """The leader has three records of epoch 3, three of 4 and one of 6; then its own of epoch 7."""
    cluster = Cluster((1,))
    node = cluster.nodes[1]
    for each in (3, 3, 3, 4, 4, 4, 6):
        node.log.append_own(data_batch(b"v", each), each)
    node.log.flush()
    node.start(cluster.now_ms)
    cluster.step(node, ev.Tick())
    assert (node.machine.role, node.machine.epoch) == ("leader", 7)
    request = fetch(9, max_wait_ms=0, current_leader_epoch=7, fetch_offset=offset, last_fetched_epoch=epoch)
    answer = partition_of(cluster.replies[cluster.ask(1, request)])
    found = (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset)
    assert found == (diverging or (-1, -1))
    assert (len(answer.records) > 0) == (diverging is None and offset < 8)


def test_a_deposed_leader_truncates_uncommitted_records() -> None:
    cluster = Cluster()
    old = cluster.elect()
    cluster.run_until(cluster.is_caught_up)
    cluster.isolate(old.node_id)
    cluster.append(old, b"lost 1")
    cluster.append(old, b"lost 2")
    cluster.run_until(lambda: any(node is not old for node in cluster.leaders))
    new = cluster.leader
    cluster.append(new, b"kept")
    cluster.seen.clear()
    cluster.cut.clear()
    cluster.run_until(lambda: cluster.is_settled() and cluster.is_caught_up())
    cuts = [effect.offset for node_id, effect in cluster.seen if isinstance(effect, fx.Truncate)]
    assert cuts == [1]
    assert old.log.prefix(99) == new.log.prefix(99)


def test_a_log_is_never_truncated_below_the_high_watermark() -> None:
    cluster = Cluster()
    leader = cluster.elect()
    cluster.append(leader, b"a")
    cluster.run_until(cluster.is_caught_up)
    cluster.run(1_000)
    # The whole of the leader's log is gone, as no crash can do it.
    leader.log.batches.clear()
    with pytest.raises(QuorumError, match="lacks what is committed"):
        cluster.run(5_000)


def test_damaged_batches_are_not_taken() -> None:
    cluster = Cluster()
    leader = cluster.elect()
    cluster.run_until(cluster.is_caught_up)
    node = next(each for each in cluster.nodes.values() if each is not leader)
    read = leader.log.read

    def damaged(offset: int, max_bytes: int) -> bytes:
        data = bytearray(read(offset, max_bytes))
        data[-1] ^= 1
        return bytes(data)

    leader.log.read = damaged  # type: ignore[method-assign]
    cluster.append(leader, b"a")
    cluster.run(1_000)
    assert node.log.end_offset == 1
    leader.log.read = read  # type: ignore[method-assign]
    cluster.run_until(cluster.is_caught_up)


# -- describing ----------------------------------------------------------------------------------------------


def describe(cluster: Cluster, node: Node, topic: str = "__cluster_metadata") -> Any:
    asked = DescribeQuorumRequest(topics=[AskedTopic(topic_name=topic, partitions=[AskedPartition()])])
    return cluster.replies[cluster.ask(node.node_id, asked)]


def test_the_leader_describes_the_quorum() -> None:
    cluster = Cluster(observers=(7,))
    leader = cluster.elect()
    cluster.append(leader, b"a")
    cluster.run_until(cluster.is_caught_up)
    down = next(node for node in cluster.nodes.values() if node is not leader)
    cluster.crash(down)
    down_ms = cluster.now_ms
    cluster.run(1_500)
    response = describe(cluster, leader)
    partition = response.topics[0].partitions[0]
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (leader.node_id, 1, 2)
    assert [(each.replica_id, each.log_end_offset) for each in partition.current_voters] == [
        (1, 2),
        (2, 2),
        (3, 2),
    ]
    assert [(each.replica_id, each.log_end_offset) for each in partition.observers] == [(7, 2)]
    for each in partition.current_voters:
        is_fresh = each.last_fetch_timestamp > down_ms and each.last_caught_up_timestamp > down_ms
        assert is_fresh == (each.replica_id != down.node_id)
    assert [(each.node_id, each.listeners[0].port) for each in response.nodes] == [
        (1, 9001),
        (2, 9002),
        (3, 9003),
    ]


def test_others_do_not_describe() -> None:
    cluster = Cluster()
    leader = cluster.elect()
    node = next(each for each in cluster.nodes.values() if each is not leader)
    assert describe(cluster, node).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    unknown = describe(cluster, leader, "another").topics[0].partitions[0]
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
