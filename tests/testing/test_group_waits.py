"""Waiting for consumer groups, as tests of other projects do."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client import Consumer, GroupInfo, GroupMember, Producer
from ottla.testing.groups import is_settled


def group_of(*members: GroupMember, state: str = "Stable") -> GroupInfo:
    return GroupInfo("g", state, "consumer", "consumer", "uniform", 1, 1, 1, list(members), [])


def test_is_settled():
    done = GroupMember("a", None, "a", "/h", [("t", 0)], [("t", 0)])
    waiting = GroupMember("b", None, "b", "/h", [], [("t", 1)])
    classic = GroupMember("c", None, "c", "/h", [("t", 2)])
    assert is_settled(group_of(done, classic), None)
    assert is_settled(group_of(done, classic), 2)
    assert not is_settled(group_of(done, classic), 3)
    assert not is_settled(group_of(done, waiting), 2)
    assert not is_settled(group_of(done, state="Reconciling"), None)
    assert not is_settled(group_of(done), 0)
    assert is_settled(group_of(state="Empty"), 0)
    assert not is_settled(group_of(state="Empty"), None)


@pytest.mark.ottla_topic(partitions=4)
def test_waiting_for_a_group_and_its_lag(ottla_cluster, ottla_topic):
    servers = ottla_cluster.bootstrap_servers
    with pytest.raises(TimeoutError, match=r"is not stable with 2 members after .*: there is no such group"):
        ottla_cluster.wait_for_group(ottla_topic, 2, timeout_s=0.1)
    with pytest.raises(TimeoutError, match="it has no partitions and no offsets"):
        ottla_cluster.wait_for_lag(ottla_topic, timeout_s=0.1)

    async def scenario():
        async with Producer(servers) as producer:
            await asyncio.gather(*(producer.send(ottla_topic, b"x", partition=n % 4) for n in range(20)))
        options = {"group_id": ottla_topic, "auto_commit_interval_ms": 50}
        async with Consumer(servers, **options) as consumer:
            consumer.subscribe(ottla_topic)
            assert await consumer.poll(timeout_ms=0) == []
            while not consumer.assignment:
                await consumer.poll(timeout_ms=20)

            async def go_on():
                while True:
                    await consumer.poll(timeout_ms=20)

            polling = asyncio.create_task(go_on())
            # Both may be called inside an event loop, but block it: consumers cannot poll, so use a thread.
            group = await asyncio.to_thread(ottla_cluster.wait_for_group, ottla_topic, 1)
            await asyncio.to_thread(ottla_cluster.wait_for_lag, ottla_topic)
            seen_again = ottla_cluster.wait_for_group(ottla_topic)
            polling.cancel()
            with pytest.raises(
                TimeoutError, match="Stable with 1 members \\(ottla\\); last rebalance: member"
            ):
                ottla_cluster.wait_for_group(ottla_topic, 2, timeout_s=0.1)
            return group, seen_again

    group, seen_again = asyncio.run(scenario())
    assert set(group.owners) == {(ottla_topic, number) for number in range(4)}
    assert seen_again.epoch == group.epoch
    assert ottla_cluster.wait_for_group(ottla_topic, 0).state == "Empty"
