"""Elections as transcripts: what the machines send each other, and what comes of it."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from ottla.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from ottla.protocol.messages.vote_request import PartitionData, TopicData, VoteRequest
from ottla.quorum.quorum_state import QuorumState
from ottla.quorum.raft import effects as fx
from ottla.quorum.raft import events as ev
from ottla.quorum.raft.requests import end_request
from tests.support.quorum.raft_cluster import CLUSTER, Cluster, Node, directory_of


def line(node_id: int, effect: fx.Effect) -> str | None:
    """An effect in a few words; None for those that elections are not about."""
    if isinstance(effect, fx.Persist):
        state = effect.state
        return f"{node_id} persists epoch {state.leader_epoch} leader {state.leader_id} vote {state.voted_id}"
    if isinstance(effect, fx.Send):
        request = effect.request
        if isinstance(request, VoteRequest):
            partition = request.topics[0].partitions[0]
            kind = "pre-vote" if partition.pre_vote else "vote"
            return f"{node_id} requests a {kind} of {effect.node_id} in epoch {partition.replica_epoch}"
        if isinstance(request, BeginQuorumEpochRequest | EndQuorumEpochRequest):
            return f"{node_id} sends {type(request).__name__.removesuffix('Request')} to {effect.node_id}"
        return None
    if isinstance(effect, fx.Reply):
        granted = getattr(_partition(effect.response), "vote_granted", None)
        return None if granted is None else f"{node_id} {'grants' if granted else 'refuses'}"
    if isinstance(effect, fx.BecameLeader | fx.LostLeadership):
        return f"{node_id} {type(effect).__name__} {effect.epoch}"
    return None


def _partition(response: Any) -> Any:
    topics = getattr(response, "topics", None)
    return topics[0].partitions[0] if topics else None


def transcript(cluster: Cluster) -> list[str]:
    lines = [line(*entry) for entry in cluster.seen]
    cluster.seen.clear()
    return [each for each in lines if each is not None]


def vote_request(**fields: Any) -> VoteRequest:
    partition: dict[str, Any] = {
        "replica_epoch": 5,
        "replica_id": 2,
        "last_offset_epoch": 1,
        "last_offset": 9,
    }
    top = {name: fields.pop(name) for name in ("cluster_id", "voter_id") if name in fields}
    topic = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(**(partition | fields))])
    return VoteRequest(**({"cluster_id": CLUSTER, "voter_id": 1} | top), topics=[topic])


def vote(cluster: Cluster, **fields: Any) -> tuple[int, bool]:
    """What node 1 answers: (error, granted)."""
    response: Any = cluster.replies[cluster.ask(1, vote_request(**fields))]
    if response.error_code:
        return response.error_code, False
    partition = response.topics[0].partitions[0]
    return partition.error_code, partition.vote_granted


@pytest.fixture
def quiet() -> Cluster:
    """Node 1 of three, which hears nothing of the others."""
    cluster = Cluster()
    for node_id in (2, 3):
        cluster.nodes[node_id].is_up = False
    cluster.step(cluster.nodes[1], ev.Tick())
    return cluster


def only_first_stands(cluster: Cluster) -> None:
    """Node 1 has the shortest timeouts."""
    cluster.nodes[1].draw = lambda n: 0
    for node_id in (2, 3):
        cluster.nodes[node_id].draw = lambda n: n - 1
    for node in cluster.nodes.values():
        node.start(cluster.now_ms)


def test_an_election_from_nothing() -> None:
    cluster = Cluster()
    only_first_stands(cluster)
    cluster.run_until(lambda: cluster.nodes[1].machine.role == "leader")
    cluster.run(2)
    assert transcript(cluster) == [
        "1 persists epoch 0 leader -1 vote -1",
        "2 persists epoch 0 leader -1 vote -1",
        "3 persists epoch 0 leader -1 vote -1",
        "1 requests a pre-vote of 2 in epoch 0",
        "1 requests a pre-vote of 3 in epoch 0",
        "2 grants",
        "3 grants",
        "1 persists epoch 1 leader -1 vote 1",
        "1 requests a vote of 2 in epoch 1",
        "1 requests a vote of 3 in epoch 1",
        "2 persists epoch 1 leader -1 vote 1",
        "2 grants",
        "3 persists epoch 1 leader -1 vote 1",
        "3 grants",
        "1 persists epoch 1 leader 1 vote 1",
        "1 BecameLeader 1",
        "1 sends BeginQuorumEpoch to 2",
        "1 sends BeginQuorumEpoch to 3",
        "2 persists epoch 1 leader 1 vote 1",
        "3 persists epoch 1 leader 1 vote 1",
    ]


def test_the_only_voter_leads_at_once() -> None:
    cluster = Cluster((1,))
    cluster.step(cluster.nodes[1], ev.Tick())
    assert transcript(cluster) == ["1 persists epoch 1 leader 1 vote 1", "1 BecameLeader 1"]
    cluster.run(1)
    assert cluster.nodes[1].machine.high_watermark == 1


def test_an_isolated_voter_starts_no_epoch() -> None:
    cluster = Cluster()
    leader = cluster.elect()
    epoch = leader.machine.epoch
    other = next(node for node in cluster.nodes.values() if node is not leader)
    cluster.isolate(other.node_id)
    cluster.run(20_000)
    assert other.machine.epoch == epoch, "pre-votes are not granted, so no epoch is begun"
    cluster.cut.clear()
    cluster.run(3_000)
    assert cluster.leaders == [leader]
    assert (leader.machine.epoch, other.machine.role) == (epoch, "follower")


def test_a_leader_without_a_majority_resigns() -> None:
    cluster = Cluster()
    leader = cluster.elect()
    cluster.run(3_000)
    cluster.isolate(leader.node_id)
    cut_ms = cluster.now_ms
    cluster.run_until(lambda: leader.machine.role != "leader")
    assert 2_400 <= cluster.now_ms - cut_ms <= 3_000, "1.5 times the fetch timeout after the last fetch"
    assert leader.machine.role == "resigned"
    assert leader.machine.leader_id == -1


def test_the_others_elect_a_new_leader_when_one_is_cut_off() -> None:
    cluster = Cluster()
    old = cluster.elect()
    cluster.isolate(old.node_id)
    cluster.run_until(lambda: any(node is not old for node in cluster.leaders))
    assert cluster.leader.machine.epoch > 1
    cluster.cut.clear()
    cluster.run_until(cluster.is_settled)
    cluster.run_until(cluster.is_caught_up)


def test_a_leader_whose_process_is_gone_is_replaced_soon() -> None:
    slow, fast = Cluster(seed=1), Cluster(seed=1, disconnect_grace_ms=100)
    gaps = []
    for cluster in (slow, fast):
        leader = cluster.elect()
        cluster.run(1_000)
        cluster.crash(leader)
        died_ms = cluster.now_ms
        cluster.run_until(lambda cluster=cluster: bool(cluster.leaders))  # type: ignore[misc]
        gaps.append(cluster.now_ms - died_ms)
    assert gaps[0] >= 1_000, "without the grace it takes the fetch timeout"
    assert gaps[1] <= 250


def test_a_leader_that_shuts_down_hands_over() -> None:
    cluster = Cluster()
    leader = cluster.elect()
    cluster.run(1_000)
    transcript(cluster)
    cluster.step(leader, ev.Shutdown())
    told = [each for each in transcript(cluster) if "EndQuorumEpoch" in each or "Lost" in each]
    others = sorted(set(cluster.nodes) - {leader.node_id})
    lost = f"{leader.node_id} LostLeadership 1"
    assert told == [lost, *(f"{leader.node_id} sends EndQuorumEpoch to {other}" for other in others)]
    cluster.run(50)
    assert any(isinstance(effect, fx.ShutdownReady) for _, effect in cluster.seen)
    assert [node.node_id in others for node in cluster.leaders] == [True], "within milliseconds"


@pytest.mark.parametrize("late_ms", [1, 5, 15])
def test_answers_of_before_do_not_hold_up_a_hand_over(late_ms: int) -> None:
    """They come over other connections than the news that the leader resigns."""
    cluster = Cluster()
    leader = cluster.elect()
    cluster.run(1_000)
    followers = [node for node in cluster.nodes.values() if node is not leader]
    voters = [cluster.voters.by_id[node.node_id] for node in followers]
    cluster.delay = lambda: late_ms
    cluster.append(leader, b"value")  # answers the fetches that wait
    for node in followers:
        cluster.ask(node.node_id, end_request(leader.config, leader.machine.epoch, voters))
    cluster.crash(leader)
    resigned_ms = cluster.now_ms
    cluster.run_until(lambda: any(node in followers for node in cluster.leaders))
    assert cluster.now_ms - resigned_ms <= 200


def test_the_last_node_to_shut_down_does_not_wait() -> None:
    cluster = Cluster()
    leader = cluster.elect()
    cluster.run(1_000)
    for node in cluster.nodes.values():
        if node is not leader:
            cluster.crash(node)
    cluster.seen.clear()
    cluster.step(leader, ev.Shutdown())
    assert not any(isinstance(effect, fx.ShutdownReady) for _, effect in cluster.seen)
    cluster.run(10)
    assert any(isinstance(effect, fx.ShutdownReady) for _, effect in cluster.seen)


def test_a_follower_may_end_at_once() -> None:
    cluster = Cluster()
    leader = cluster.elect()
    other = next(node for node in cluster.nodes.values() if node is not leader)
    cluster.seen.clear()
    cluster.step(other, ev.Shutdown())
    assert any(isinstance(effect, fx.ShutdownReady) for _, effect in cluster.seen)


def test_a_restarted_leader_does_not_lead_its_epoch_again() -> None:
    cluster = Cluster()
    leader = cluster.elect()
    cluster.crash(leader)
    cluster.restart(leader)
    assert leader.machine.role == "resigned"
    epoch = leader.machine.epoch
    cluster.run_until(lambda: bool(cluster.leaders))
    assert cluster.leader.machine.epoch > epoch


def test_a_restarted_candidate_does_not_stand_again_in_its_epoch() -> None:
    cluster = Cluster()
    node = cluster.nodes[1]
    node.saved = QuorumState(leader_epoch=7, voted_id=1, voted_directory_id=directory_of(1))
    node.start(cluster.now_ms)
    assert (node.machine.role, node.machine.epoch) == ("unattached", 7)
    cluster.run_until(lambda: bool(cluster.leaders))
    assert cluster.leader.machine.epoch > 7


def test_observers_follow_and_never_stand() -> None:
    cluster = Cluster(observers=(4, 5))
    leader = cluster.elect()
    cluster.run_until(cluster.is_caught_up)
    assert cluster.nodes[4].machine.role == "follower"
    for node_id in (1, 2, 3):
        cluster.crash(cluster.nodes[node_id])
    cluster.run(20_000)
    assert {cluster.nodes[node_id].machine.role for node_id in (4, 5)} <= {"follower", "unattached"}
    assert leader.machine.epoch == cluster.nodes[4].machine.epoch


# -- votes ---------------------------------------------------------------------------------------------------


def test_a_vote_is_persisted_before_it_is_granted(quiet: Cluster) -> None:
    quiet.seen.clear()
    assert vote(quiet) == (ErrorCode.NONE, True)
    assert transcript(quiet) == ["1 persists epoch 5 leader -1 vote 2", "1 grants"]


def test_one_vote_each_epoch(quiet: Cluster) -> None:
    assert vote(quiet, replica_id=2) == (ErrorCode.NONE, True)
    assert vote(quiet, replica_id=3) == (ErrorCode.NONE, False)
    assert vote(quiet, replica_id=2) == (ErrorCode.NONE, True), "a retry gets the same response"
    quiet.crash(quiet.nodes[1])
    quiet.restart(quiet.nodes[1])
    assert vote(quiet, replica_id=3) == (ErrorCode.NONE, False), "and after a restart"
    assert vote(quiet, replica_id=3, replica_epoch=6) == (ErrorCode.NONE, True)


def test_pre_votes_are_not_binding(quiet: Cluster) -> None:
    quiet.seen.clear()
    assert vote(quiet, replica_id=2, replica_epoch=0, last_offset_epoch=0, pre_vote=True)[1]
    assert vote(quiet, replica_id=3, replica_epoch=0, last_offset_epoch=0, pre_vote=True)[1]
    assert transcript(quiet) == ["1 grants", "1 grants"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"cluster_id": None}, ErrorCode.NONE),
        ({"voter_id": 9}, ErrorCode.INVALID_VOTER_KEY),
        ({"voter_id": -1}, ErrorCode.NONE),
        ({"voter_directory_id": b"x" * 16}, ErrorCode.INVALID_VOTER_KEY),
        ({"voter_directory_id": directory_of(1)}, ErrorCode.NONE),
        ({"last_offset_epoch": 5}, ErrorCode.INVALID_REQUEST),
        ({"last_offset_epoch": 5, "pre_vote": True}, ErrorCode.NONE),
        ({"last_offset_epoch": 6, "pre_vote": True}, ErrorCode.INVALID_REQUEST),
        ({"last_offset": -1}, ErrorCode.INVALID_REQUEST),
        ({"replica_id": -1}, ErrorCode.INVALID_REQUEST),
        ({"replica_epoch": 2}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"partition_index": 1}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_errors_of_a_vote_request(quiet: Cluster, fields: dict[str, Any], expected: int) -> None:
    assert vote(quiet, replica_epoch=3)[0] == ErrorCode.NONE
    error, granted = vote(quiet, **fields)
    assert error == expected
    assert granted == (expected == ErrorCode.NONE)


@pytest.mark.parametrize(
    ("last_epoch", "last_offset", "granted"), [(1, 2, True), (1, 1, False), (0, 9, False), (2, 1, True)]
)
def test_the_longer_log_wins(last_epoch: int, last_offset: int, granted: bool) -> None:
    cluster = Cluster()
    node: Node = cluster.nodes[1]
    for _ in range(2):
        node.log.append_own(bytearray(_batch()), 1)
    node.log.flush()
    node.start(cluster.now_ms)
    fields = {"last_offset_epoch": last_epoch, "last_offset": last_offset}
    assert vote(cluster, replica_epoch=1, pre_vote=True, **fields)[1] == (granted and last_epoch <= 1)
    assert vote(cluster, replica_epoch=7, **fields)[1] == granted


def _batch() -> bytearray:
    from tests.support.quorum.raft_cluster import data_batch

    return data_batch(b"value", 1)


def test_a_follower_that_has_fetched_supports_no_election() -> None:
    cluster = Cluster()
    leader = cluster.elect()
    cluster.run_until(cluster.is_caught_up)
    node = next(each for each in cluster.nodes.values() if each is not leader)
    fields = {
        "replica_id": 9,
        "replica_epoch": 1,
        "last_offset_epoch": 1,
        "last_offset": 99,
        "pre_vote": True,
    }
    request = vote_request(voter_id=node.node_id, **fields)
    response: Any = cluster.replies[cluster.ask(node.node_id, request)]
    partition = response.topics[0].partitions[0]
    assert not partition.vote_granted
    assert (partition.leader_id, partition.leader_epoch) == (leader.node_id, 1)
    assert [(each.node_id, each.port) for each in response.node_endpoints] == [
        (leader.node_id, 9000 + leader.node_id)
    ]
