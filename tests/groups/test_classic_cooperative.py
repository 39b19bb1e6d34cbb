"""Cooperative members move partitions in two rebalances: revoked in the first, assigned in the second."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode
from tests.support.groups.classic_clients import ClassicClient
from tests.support.groups.consumer_harness import ConsumerHarness


def between_two_phases() -> tuple[ConsumerHarness, ClassicClient, ClassicClient]:
    """a had all partitions and is to revoke half of them; b waits for that."""
    harness = ConsumerHarness(group_initial_rebalance_delay_ms="0")
    a = ClassicClient(harness, "a", "t", instance_id="a")
    b = ClassicClient(harness, "b", "t", instance_id="b")
    assert a.join() == ErrorCode.NONE
    assert a.sync({a.member_id: {"t": [0, 1, 2, 3]}}) == ErrorCode.NONE
    assert b.join() is None
    assert a.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert a.join() == ErrorCode.NONE
    assert b.hear() == ErrorCode.NONE
    assert b.sync() is None
    assert a.sync({a.member_id: {"t": [0, 1]}, b.member_id: {}}) == ErrorCode.NONE
    assert b.hear() == ErrorCode.NONE
    return harness, a, b


def started_again(harness: ConsumerHarness, client: ClassicClient) -> ClassicClient:
    return ClassicClient(harness, f"{client.name}2", "t", instance_id=client.instance_id)


def test_a_static_member_that_is_started_again_between_the_phases_calls_for_the_second() -> None:
    harness, a, b = between_two_phases()
    again = started_again(harness, a)
    assert again.join() is None
    assert b.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert b.join() == ErrorCode.NONE
    assert again.hear() == ErrorCode.NONE and again.generation == 3
    assert b.sync() is None
    shares = {again.member_id: {"t": [0, 1]}, b.member_id: {"t": [2, 3]}}
    assert again.sync(shares) == ErrorCode.NONE and b.hear() == ErrorCode.NONE
    assert (again.owned, b.owned) == ({"t": [0, 1]}, {"t": [2, 3]})
    # The next restart triggers no rebalance again.
    third = started_again(harness, a)
    assert third.join() == ErrorCode.NONE and third.sync() == ErrorCode.NONE
    assert third.owned == {"t": [0, 1]}
    assert b.heartbeat() == ErrorCode.NONE


def test_so_it_does_at_another_coordinator() -> None:
    harness, a, b = between_two_phases()
    harness.reload()
    assert started_again(harness, a).join() is None
    assert b.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_with_nothing_to_revoke_does_not_rejoin() -> None:
    harness, a, b = between_two_phases()
    again = started_again(harness, b)
    assert again.join() == ErrorCode.NONE and again.sync() == ErrorCode.NONE
    assert a.heartbeat() == ErrorCode.NONE


def test_nor_does_one_after_the_second_phase() -> None:
    harness, a, b = between_two_phases()
    assert a.join() is None
    assert b.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert b.join() == ErrorCode.NONE and a.hear() == ErrorCode.NONE
    assert b.sync() is None
    assert a.sync({a.member_id: {"t": [0, 1]}, b.member_id: {"t": [2, 3]}}) == ErrorCode.NONE
    assert b.hear() == ErrorCode.NONE
    for client in (a, b):
        again = started_again(harness, client)
        assert again.join() == ErrorCode.NONE and again.sync() == ErrorCode.NONE
        assert again.owned == client.owned
    assert len(harness.shard.rebalances("g")) == 3
