"""Voters that start: quick to elect a leader, quiet where there is one, and backing off without answers."""

from __future__ import annotations

import pytest

from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.vote_request import VoteRequest
from ottla.quorum.raft import effects as fx
from tests.support.quorum.raft_cluster import Cluster, Node

SOON_MS = 300  # the election timeout is 1000 to 2000


def sent(cluster: Cluster, node: Node, kind: type) -> int:
    return sum(
        who == node.node_id and isinstance(effect, fx.Send) and isinstance(effect.request, kind)
        for who, effect in cluster.seen
    )


@pytest.mark.parametrize("seed", range(20))
def test_three_that_start_together_have_a_leader_soon(seed: int) -> None:
    cluster = Cluster(seed=seed)
    start_ms = cluster.now_ms
    cluster.elect()
    assert cluster.now_ms - start_ms <= SOON_MS


@pytest.mark.parametrize("seed", range(20))
def test_three_that_start_again_have_a_leader_soon(seed: int) -> None:
    """One of them has led, two remember whom they followed: all are wrong now."""
    cluster = Cluster(seed=seed)
    cluster.elect()
    cluster.run_until(cluster.is_caught_up)
    for node in cluster.nodes.values():
        cluster.crash(node)
    cluster.run(10_000)
    for node in cluster.nodes.values():
        cluster.restart(node)
    start_ms = cluster.now_ms
    cluster.elect()
    assert cluster.now_ms - start_ms <= 2 * SOON_MS


@pytest.mark.parametrize("seed", range(10))
def test_the_second_of_three_is_enough_whenever_it_comes(seed: int) -> None:
    cluster = Cluster(seed=seed)
    for node in cluster.nodes.values():
        node.is_up = False
    cluster.restart(cluster.nodes[1])
    cluster.run(400)
    cluster.restart(cluster.nodes[2])
    start_ms = cluster.now_ms
    cluster.elect()
    assert cluster.now_ms - start_ms <= SOON_MS


def test_a_lone_voter_retries_with_backoff() -> None:
    cluster = Cluster()
    for node_id in (2, 3):
        cluster.nodes[node_id].is_up = False
    node = cluster.nodes[1]
    start_ms = cluster.now_ms
    cluster.run_until(lambda: node.machine.role == "prospective")
    first_ms = cluster.now_ms - start_ms
    assert 50 <= first_ms <= 200
    cluster.run_until(lambda: node.machine.role != "prospective")
    assert cluster.now_ms - start_ms >= 1000, "it waits for the usual election timeout"
    back_ms = cluster.now_ms
    cluster.run_until(lambda: node.machine.role == "prospective")
    assert cluster.now_ms - back_ms >= 1000, "then it is as patient as ever"
    cluster.seen.clear()
    cluster.run(60_000)
    assert sent(cluster, node, VoteRequest) <= 60_000 // 1000 * 10
    assert node.machine.epoch == 0, "no vote was granted"


@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_a_follower_that_starts_again_finds_the_leader(seed: int, forgets: bool) -> None:
    cluster = Cluster(seed=seed)
    leader = cluster.elect()
    cluster.run(2_000)
    node = next(each for each in cluster.nodes.values() if each is not leader)
    cluster.crash(node)
    if forgets:
        node.saved = None
    cluster.run(500)
    cluster.seen.clear()
    cluster.restart(node)
    cluster.run(5_000)
    assert (leader.machine.role, leader.machine.epoch, node.machine.role) == ("leader", 1, "follower")
    assert sent(cluster, node, VoteRequest) == 0, "the first response names the leader"
    assert sent(cluster, node, FetchRequest) > 0


@pytest.mark.parametrize("forgets", [False, True])
def test_a_restarted_follower_that_cannot_reach_the_leader_does_not_disturb_the_quorum(forgets: bool) -> None:
    """It requests a pre-vote from the other follower, which refuses it."""
    cluster = Cluster()
    leader = cluster.elect()
    cluster.run(2_000)
    node, other = (each for each in cluster.nodes.values() if each is not leader)
    cluster.crash(node)
    if forgets:
        node.saved = None
    cluster.cut |= {(node.node_id, leader.node_id), (leader.node_id, node.node_id)}
    cluster.restart(node)
    cluster.run(10_000)
    assert (leader.machine.role, leader.machine.epoch) == ("leader", 1)
    assert (other.machine.role, other.machine.epoch) == ("follower", 1)
    assert node.machine.epoch == 1


def test_a_slow_leader_is_not_disturbed_by_a_follower_that_starts_again() -> None:
    cluster = Cluster()
    leader = cluster.elect()
    cluster.run(2_000)
    node = next(each for each in cluster.nodes.values() if each is not leader)
    cluster.crash(node)
    cluster.restart(node)
    cluster.delay = lambda: 300  # no answer within the moment that a start waits
    cluster.seen.clear()
    cluster.run(10_000)
    assert sent(cluster, node, VoteRequest) > 0
    assert (leader.machine.role, leader.machine.epoch, node.machine.role) == ("leader", 1, "follower")


@pytest.mark.parametrize("seed", range(10))
def test_a_leader_that_starts_again_at_once_is_soon_replaced(seed: int) -> None:
    cluster = Cluster(seed=seed, disconnect_grace_ms=300)
    leader = cluster.elect()
    cluster.run(2_000)
    cluster.crash(leader)
    cluster.restart(leader)
    start_ms = cluster.now_ms
    cluster.run_until(lambda: bool(cluster.leaders) and cluster.is_settled())
    assert cluster.now_ms - start_ms <= 2 * SOON_MS
    assert cluster.leader.machine.epoch > 1


def test_a_starting_voter_that_voted_waits_for_the_result() -> None:
    cluster = Cluster()
    cluster.nodes[1].draw = lambda n: 0
    for node_id in (2, 3):
        cluster.nodes[node_id].draw = lambda n: n - 1
    for node in cluster.nodes.values():
        node.start(cluster.now_ms)
    cluster.run_until(lambda: cluster.nodes[1].machine.role == "leader")
    cluster.crash(cluster.nodes[1])  # before any node heard of it
    cluster.wire.clear()
    voted_ms = cluster.now_ms
    cluster.run_until(
        lambda: any(n.is_up and n.machine.role == "prospective" for n in cluster.nodes.values())
    )
    assert cluster.now_ms - voted_ms >= 900
