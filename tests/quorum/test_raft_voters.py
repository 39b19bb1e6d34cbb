"""Voters that are added, removed and updated: kraft.version 1, where the set of voters is in the log."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions_response import ApiVersionsResponse
from ottla.protocol.messages.update_raft_voter_request import (
    KRaftVersionFeature,
    Listener,
    UpdateRaftVoterRequest,
)
from ottla.quorum.raft import effects as fx
from ottla.quorum.raft import events as ev
from ottla.quorum.raft.config import RaftConfig
from ottla.quorum.raft.voters import Endpoint, Voter, VoterHistory, VoterSet
from tests.support.quorum.raft_cluster import (
    Cluster,
    Node,
    add_request,
    directory_of,
    remove_request,
    voter,
    voter_set,
)


@pytest.fixture
def dynamic() -> Cluster:
    """Voters 1, 2 and 3, formatted as a dynamic quorum, and node 4 that could become one."""
    cluster = Cluster(dynamic=True)
    cluster.add_node(4)
    cluster.elect()
    cluster.run_until(cluster.is_caught_up)
    return cluster


def answer(cluster: Cluster, request: Any, node: Node | None = None) -> Any:
    token = cluster.ask((node or cluster.leader).node_id, request)
    cluster.run_until(lambda: token in cluster.replies)
    return cluster.replies[token]


def ids(node: Node) -> list[int]:
    return sorted(node.machine.voters.by_id)


def test_the_first_leader_writes_the_voters_into_the_log(dynamic: Cluster) -> None:
    for node in dynamic.nodes.values():
        assert (node.machine.kraft_version, ids(node)) == (1, [1, 2, 3])
    assert dynamic.nodes[4].machine.history.voters_offset == 2, "after LeaderChange and KRaftVersion"
    assert dynamic.nodes[1].saved.version == 1  # type: ignore[union-attr]


def test_a_voter_is_added(dynamic: Cluster) -> None:
    assert answer(dynamic, add_request(4)).error_code == ErrorCode.NONE
    dynamic.run_until(dynamic.is_caught_up)
    assert [ids(node) for node in dynamic.nodes.values()] == [[1, 2, 3, 4]] * 4
    added = dynamic.leader.machine.voters.by_id[4]
    assert added == voter(4, directory=True)._replace(kraft_version_max=1)


def test_a_new_set_counts_before_it_is_committed(dynamic: Cluster) -> None:
    leader = dynamic.leader
    for node in dynamic.nodes.values():
        if node is not leader:
            dynamic.isolate(node.node_id)
    other = next(node_id for node_id in (1, 2, 3) if node_id != leader.node_id)
    dynamic.ask(leader.node_id, remove_request(other))
    assert len(ids(leader)) == 2


def test_one_change_at_a_time(dynamic: Cluster) -> None:
    leader = dynamic.leader
    first = dynamic.ask(leader.node_id, remove_request(next(i for i in (1, 2, 3) if i != leader.node_id)))
    second: Any = dynamic.replies[dynamic.ask(leader.node_id, add_request(4))]
    assert second.error_code == ErrorCode.REQUEST_TIMED_OUT
    dynamic.run_until(lambda: first in dynamic.replies)
    assert answer(dynamic, add_request(4)).error_code == ErrorCode.NONE


def test_errors_of_add_raft_voter(dynamic: Cluster) -> None:
    leader = dynamic.leader
    follower = next(node for node in dynamic.nodes.values() if node is not leader)
    assert answer(dynamic, add_request(2)).error_code == ErrorCode.DUPLICATE_VOTER
    assert answer(dynamic, add_request(4, cluster_id="x")).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert answer(dynamic, add_request(4, listeners=[])).error_code == ErrorCode.INVALID_REQUEST
    assert answer(dynamic, add_request(4), follower).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    unheard = answer(dynamic, add_request(4, voter_directory_id=b"x" * 16))
    assert (unheard.error_code, unheard.error_message) == (
        ErrorCode.REQUEST_TIMED_OUT,
        "4 has not caught up with the leader",
    )
    gone = answer(dynamic, add_request(9))
    assert (gone.error_code, gone.error_message) == (ErrorCode.REQUEST_TIMED_OUT, "9 could not be reached")
    assert [ids(node) for node in dynamic.nodes.values()] == [[1, 2, 3]] * 4


def test_a_voter_that_is_too_old_is_not_added(dynamic: Cluster) -> None:
    leader = dynamic.leader
    token = dynamic.ask(leader.node_id, add_request(4))
    (sent,) = [effect for _, effect in dynamic.seen if isinstance(effect, fx.Send)][-1:]
    dynamic.step(leader, ev.ResponseReceived(sent.request_id, ApiVersionsResponse()))
    response: Any = dynamic.replies[token]
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert "kraft.version 0 to 0" in response.error_message


def test_an_addition_may_be_answered_before_it_is_committed(dynamic: Cluster) -> None:
    dynamic.delay = lambda: 5
    token = dynamic.ask(dynamic.leader.node_id, add_request(4, ack_when_committed=False))
    dynamic.run_until(lambda: token in dynamic.replies)
    machine = dynamic.leader.machine
    assert machine.history.voters_offset >= machine.high_watermark


def test_a_fixed_quorum_does_not_change() -> None:
    cluster = Cluster()
    cluster.add_node(4, can_vote=False)
    cluster.elect()
    cluster.run_until(cluster.is_caught_up)
    assert answer(cluster, add_request(4)).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer(cluster, remove_request(2)).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_voter_is_removed(dynamic: Cluster) -> None:
    leader = dynamic.leader
    other = next(node_id for node_id in (1, 2, 3) if node_id != leader.node_id)
    wrong = remove_request(other, voter_directory_id=b"x" * 16)
    assert answer(dynamic, wrong).error_code == ErrorCode.VOTER_NOT_FOUND
    assert answer(dynamic, remove_request(4)).error_code == ErrorCode.VOTER_NOT_FOUND
    assert answer(dynamic, remove_request(other)).error_code == ErrorCode.NONE
    dynamic.run(20_000)
    assert dynamic.leaders == [leader]
    assert other not in ids(dynamic.nodes[other])
    assert dynamic.nodes[other].machine.role == "follower", "it continues as an observer"


def test_a_leader_that_removes_itself_resigns_when_that_is_committed(dynamic: Cluster) -> None:
    leader = dynamic.leader
    assert answer(dynamic, remove_request(leader.node_id)).error_code == ErrorCode.NONE
    assert leader.machine.role == "resigned"
    removed_ms = dynamic.now_ms
    dynamic.run_until(dynamic.is_settled)
    assert dynamic.now_ms - removed_ms <= 300, "it probes for the leader as soon as the others know it"
    assert dynamic.leader is not leader
    assert leader.node_id not in ids(dynamic.leader)


def test_the_last_voter_stays() -> None:
    cluster = Cluster((1,), dynamic=True)
    cluster.elect()
    cluster.run_until(cluster.is_caught_up)
    assert answer(cluster, remove_request(1)).error_code == ErrorCode.INVALID_REQUEST


def test_a_quorum_grows_from_one_to_three_and_survives_its_first_voter() -> None:
    cluster = Cluster((1,), dynamic=True)
    cluster.add_node(2)
    cluster.add_node(3)
    cluster.elect()
    for node_id in (2, 3):
        cluster.run_until(cluster.is_caught_up)
        assert answer(cluster, add_request(node_id)).error_code == ErrorCode.NONE
    cluster.run_until(cluster.is_caught_up)
    cluster.crash(cluster.nodes[1])
    cluster.run_until(lambda: bool(cluster.leaders))
    assert cluster.leader.node_id in (2, 3)


def test_a_change_that_is_cut_off_is_taken_back(dynamic: Cluster) -> None:
    old = dynamic.leader
    dynamic.isolate(old.node_id)
    dynamic.ask(old.node_id, remove_request(next(i for i in (1, 2, 3) if i != old.node_id)))
    assert len(ids(old)) == 2
    dynamic.run_until(lambda: any(node is not old for node in dynamic.leaders))
    dynamic.cut.clear()
    dynamic.run_until(lambda: dynamic.is_settled() and dynamic.is_caught_up())
    assert ids(old) == [1, 2, 3]


def test_a_voter_that_moved_says_where_it_is(dynamic: Cluster) -> None:
    node = next(each for each in dynamic.nodes.values() if each is not dynamic.leader and each.node_id < 4)
    moved = Endpoint("CONTROLLER", "elsewhere", 9000 + node.node_id)
    old = node.config
    node.config = RaftConfig(
        node_id=old.node_id,
        cluster_id=old.cluster_id,
        directory_id=old.directory_id,
        bootstrap=old.bootstrap,
        listeners=[moved],
    )
    dynamic.crash(node)
    dynamic.restart(node)
    dynamic.run(3_000)
    assert dynamic.leader.machine.voters.by_id[node.node_id].endpoints == (moved,)
    assert ids(dynamic.leader) == [1, 2, 3]


def test_errors_of_update_raft_voter(dynamic: Cluster) -> None:
    def update(**fields: Any) -> int:
        defaults: dict[str, Any] = {
            "cluster_id": None,
            "current_leader_epoch": dynamic.leader.machine.epoch,
            "voter_id": 2,
            "voter_directory_id": directory_of(2),
            "listeners": [Listener(name="CONTROLLER", host="h", port=1)],
            "kraft_version_feature": KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
        }
        response = answer(dynamic, UpdateRaftVoterRequest(**(defaults | fields)))
        assert response.current_leader.leader_id == dynamic.leader.node_id
        error: int = response.error_code
        return error

    assert update(current_leader_epoch=0) == ErrorCode.FENCED_LEADER_EPOCH
    assert update(current_leader_epoch=99) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert update(voter_directory_id=b"x" * 16) == ErrorCode.VOTER_NOT_FOUND
    assert update(kraft_version_feature=KRaftVersionFeature()) == ErrorCode.INVALID_REQUEST
    assert update(listeners=[]) == ErrorCode.INVALID_REQUEST
    assert update(cluster_id="x") == ErrorCode.INCONSISTENT_CLUSTER_ID


# -- the set itself ------------------------------------------------------------------------------------------


def test_a_set_survives_its_record() -> None:
    voters = VoterSet([voter(1, directory=True), Voter(7, b"d" * 16, (), 1, 3)])
    assert VoterSet.from_record(voters.to_record()) == voters


def test_the_receiver_is_checked() -> None:
    fixed, named = voter_set((1, 2)), voter_set((1, 2), directory=True)
    assert fixed.has(1, b"x" * 16)
    assert not fixed.has(3, b"x" * 16)
    assert named.has(1, directory_of(1))
    assert not named.has(1, directory_of(2))
    assert not named.has(1, bytes(16))


@pytest.mark.parametrize(("size", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_majorities(size: int, majority: int) -> None:
    assert voter_set(range(size)).majority == majority


def test_the_history_follows_the_log() -> None:
    history = VoterHistory(voter_set((1,)))
    history.add(3, 1)
    history.add(4, voter_set((1, 2)))
    history.add(9, voter_set((1, 2, 3)))
    assert (history.kraft_version, len(history.voters), history.voters_offset) == (1, 3, 9)
    assert history.at(9) == (1, voter_set((1, 2)))
    assert history.at(3) == (0, None)
    history.truncate(9)
    assert history.voters == voter_set((1, 2))
    history.restart(20, 1, voter_set((5,)))
    assert (history.voters_offset, history.at(20)) == (19, (1, voter_set((5,))))
    history.restart(30, 0, None)
    assert (history.kraft_version, history.voters) == (0, voter_set((1,)))
