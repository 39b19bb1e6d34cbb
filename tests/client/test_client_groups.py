"""Consumers in groups, and the admin's view of them, with real brokers and members of other clients."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import confluent_kafka
import pytest

from ottla.client import (
    Admin,
    BrokerError,
    ClientError,
    CommittedOffset,
    Consumer,
    GroupNotEmptyError,
    Producer,
    RebalanceListener,
    UnknownGroupError,
)
from ottla.client.consumer.classic_protocol import assign_range
from ottla.protocol.errors import ErrorCode
from ottla.testing import Cluster
from ottla.testing.topics import topic_name_for
from tests.support.waiting import wait_until_async

QUICK = {
    "group.initial.rebalance.delay.ms": 100,
    "group.min.session.timeout.ms": 500,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.migration.policy": "disabled",
}
PARTITIONS = 6
BOTH = pytest.mark.parametrize("protocol", ["consumer", "classic"])


@pytest.fixture(scope="module")
def groups_broker():
    with Cluster(config=QUICK) as cluster:
        yield cluster


@pytest.fixture
def topic(groups_broker, request):
    name = topic_name_for(request.node.name)
    groups_broker.create_topic(name, PARTITIONS)
    return name


async def fill(servers, topic, count=60, partitions=PARTITIONS):
    async with Producer(servers) as producer:
        sends = [producer.send(topic, b"%d" % n, partition=n % partitions) for n in range(count)]
        await asyncio.gather(*sends)


def run(scenario, timeout_s=40):
    async def whole():
        async with asyncio.timeout(timeout_s):
            return await scenario

    return asyncio.run(whole())


def consumer_of(servers, group, **options):
    options.setdefault("heartbeat_interval_ms", 100)
    return Consumer(servers, group_id=group, **options)


class Member:
    """Polls in a task; records its assignment, its records and its rebalances."""

    def __init__(self, servers, group, topic, name, **options):
        self.name = name
        self.records = []
        self.events = []
        self.listener = RecordingListener(self.events)
        self.consumer = consumer_of(servers, group, client_id=name, **options)
        self.consumer.subscribe(topic, listener=self.listener)
        self.task = asyncio.create_task(self.poll())

    async def poll(self):
        while True:
            for record in await self.consumer.poll(timeout_ms=50):
                self.records.append((record.partition, record.offset))

    async def stop(self):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.consumer.close()

    @property
    def partitions(self):
        return {number for _, number in self.consumer.assignment}


class RecordingListener(RebalanceListener):
    def __init__(self, events):
        self.events = events

    async def on_partitions_assigned(self, assigned):
        self.events.append(("assigned", {number for _, number in assigned}))

    async def on_partitions_revoked(self, revoked):
        self.events.append(("revoked", {number for _, number in revoked}))

    async def on_partitions_lost(self, lost):
        self.events.append(("lost", {number for _, number in lost}))


def shared(members):
    """Every partition has one owner, and the numbers differ by one at most."""
    counts = sorted(len(member.partitions) for member in members)
    owned = [number for member in members for number in member.partitions]
    return sorted(owned) == list(range(PARTITIONS)) and counts[-1] - counts[0] <= 1


@BOTH
def test_members_share_partitions_without_duplicates(groups_broker, topic, protocol):
    servers = groups_broker.bootstrap_servers

    async def scenario():
        await fill(servers, topic)
        first = Member(servers, topic, topic, "first", group_protocol=protocol)
        await wait_until_async(lambda: first.partitions == set(range(PARTITIONS)))
        second = Member(servers, topic, topic, "second", group_protocol=protocol)
        await wait_until_async(lambda: shared([first, second]))
        third = Member(servers, topic, topic, "third", group_protocol=protocol)
        await wait_until_async(lambda: shared([first, second, third]))
        await fill(servers, topic)
        await wait_until_async(lambda: sum(len(each.records) for each in (first, second, third)) >= 120)
        await first.stop()
        await wait_until_async(lambda: shared([second, third]))
        async with Admin(servers) as admin:
            await second.stop()
            await third.stop()
            info = await admin.describe_group(topic)
            lags = await admin.group_lag(topic)
        return [first, second, third], info, lags

    members, info, lags = run(scenario())
    read = [record for member in members for record in member.records]
    assert sorted(read) == [(number, offset) for number in range(PARTITIONS) for offset in range(20)]
    assert [(row.partition, row.committed, row.lag) for row in lags] == [
        (number, 20, 0) for number in range(PARTITIONS)
    ]
    assert (info.state, info.type, info.members) == ("Empty", protocol, [])
    causes = [cause for rebalance in info.rebalances for cause in rebalance.causes]
    assert [(cause.what, cause.client_id) for cause in causes] == [
        (what, name) for what in ("member joined", "member left") for name in ("first", "second", "third")
    ]
    first = members[0]
    assert first.events[0] == ("assigned", set(range(PARTITIONS)))
    if protocol == "consumer":
        # Only partitions that move are revoked.
        assert all(len(numbers) <= 3 for _, numbers in first.events[1:])
    else:
        assert first.events[1] == ("revoked", set(range(PARTITIONS)))


def test_auto_chooses_what_the_cluster_and_the_group_support(groups_broker, topic):
    servers = groups_broker.bootstrap_servers
    other = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": topic, "heartbeat.interval.ms": 100}
    )
    other.subscribe([topic])
    over = threading.Event()

    def poll():
        while not over.is_set():
            other.poll(0.05)

    thread = threading.Thread(target=poll)
    thread.start()

    async def scenario():
        # A classic group, with a member that supports only the classic protocol.
        await asyncio.to_thread(groups_broker.wait_for_group, topic, 1)
        member = Member(servers, topic, topic, "ours")
        await wait_until_async(lambda: len(member.partitions) == 3)
        mixed = await asyncio.to_thread(groups_broker.wait_for_group, topic, 2)
        await member.stop()
        new = Member(servers, f"{topic}-new", topic, "ours")
        await wait_until_async(lambda: len(new.partitions) == PARTITIONS)
        fresh = await asyncio.to_thread(groups_broker.wait_for_group, f"{topic}-new", 1)
        await new.stop()
        with pytest.raises(BrokerError) as refused:
            async with consumer_of(servers, topic, group_protocol="consumer") as consumer:
                consumer.subscribe(topic)
                for _ in range(100):
                    await consumer.poll(timeout_ms=50)
        return mixed, fresh, refused.value

    try:
        mixed, fresh, refused = run(scenario())
    finally:
        over.set()
        thread.join()
        other.close()
    assert (mixed.type, mixed.assignor, len(mixed.owners)) == ("classic", "range", PARTITIONS)
    assert (fresh.type, fresh.assignor) == ("consumer", "uniform")
    assert refused.code == ErrorCode.GROUP_ID_NOT_FOUND


def test_auto_falls_back_where_the_protocol_is_disabled(request):
    async def scenario(servers):
        member = Member(servers, "old", "t", "ours")
        await wait_until_async(lambda: len(member.partitions) == PARTITIONS)
        async with Admin(servers) as admin:
            info = await admin.describe_group("old")
        await member.stop()
        return info

    with Cluster(config={**QUICK, "group.coordinator.rebalance.protocols": "classic"}) as cluster:
        cluster.create_topic("t", PARTITIONS)
        info = run(scenario(cluster.bootstrap_servers))
    assert (info.type, info.assignor) == ("classic", "range")


@BOTH
def test_only_offsets_of_returned_records_are_committed(groups_broker, topic, protocol):
    servers = groups_broker.bootstrap_servers
    options = {"group_protocol": protocol}

    async def offset():
        async with Admin(servers) as admin:
            offsets = await admin.group_offsets(topic)
            return {number: row.offset for (_, number), row in offsets.items()}.get(0)

    async def read(count, **more):
        seen = []
        async with consumer_of(servers, topic, **options, **more) as consumer:
            consumer.subscribe([topic])  # a list, as other clients take it
            async for record in consumer:
                seen.append(record.offset)
                if len(seen) == count:
                    break
        return seen

    async def fail_at(count):
        with contextlib.suppress(ZeroDivisionError):
            async with consumer_of(servers, topic, **options) as consumer:
                consumer.subscribe(topic)
                async for record in consumer:
                    if record.offset == count:
                        raise ZeroDivisionError

    async def scenario():
        await fill(servers, topic, 100, partitions=1)
        # All records of the fetch were received, but only these were returned.
        assert await read(5) == [0, 1, 2, 3, 4]
        assert await offset() == 5
        await fail_at(30)
        assert await offset() == 5
        assert await read(3, auto_commit=False) == [5, 6, 7]
        assert await offset() == 5
        async with consumer_of(servers, topic, **options, auto_commit=False) as consumer:
            consumer.subscribe(topic)
            async for record in consumer:
                if record.offset == 9:
                    await consumer.commit()
                    assert (await consumer.committed([(topic, 0)]))[topic, 0].offset == 10
                    await consumer.commit({(topic, 0): CommittedOffset(8, metadata="so far")})
                    break
        assert await offset() == 8
        assert await read(92, auto_commit_interval_ms=1) == list(range(8, 100))
        assert await offset() == 100

    run(scenario())


@BOTH
def test_a_consumer_that_does_not_poll_leaves_until_it_does(groups_broker, topic, protocol):
    servers = groups_broker.bootstrap_servers

    async def scenario():
        events = []
        async with consumer_of(servers, topic, group_protocol=protocol, max_poll_interval_ms=600) as consumer:
            consumer.subscribe(topic, listener=RecordingListener(events))
            while len(consumer.assignment) < PARTITIONS:
                await consumer.poll(timeout_ms=20)
            async with Admin(servers) as admin:
                async with asyncio.timeout(10):
                    while (await admin.describe_group(topic)).members:
                        await asyncio.sleep(0.05)
            while len(events) < 3:
                await consumer.poll(timeout_ms=20)
        return events

    everything = set(range(PARTITIONS))
    assert run(scenario()) == [("assigned", everything), ("lost", everything), ("assigned", everything)]


@BOTH
def test_a_static_member_rejoins_without_a_rebalance(groups_broker, topic, protocol):
    servers = groups_broker.bootstrap_servers

    async def scenario():
        async with Admin(servers) as admin:
            members = [
                Member(servers, topic, topic, f"m{n}", group_protocol=protocol, group_instance_id=f"i{n}")
                for n in range(2)
            ]
            await wait_until_async(lambda: shared(members))
            before = await asyncio.to_thread(groups_broker.wait_for_group, topic, 2)
            had = members[0].partitions
            await members[0].stop()
            options = {"group_protocol": protocol, "group_instance_id": "i0"}
            again = Member(servers, topic, topic, "m0", **options)
            await wait_until_async(lambda: again.partitions == had)
            after = await asyncio.to_thread(groups_broker.wait_for_group, topic, 2)
            for each in (again, members[1]):
                await each.stop()
            # Static members are expected back, so the group waits for their sessions: remove them.
            with pytest.raises(GroupNotEmptyError):
                await admin.delete_groups([topic])
        return before, after

    before, after = run(scenario())
    assert {member.instance_id for member in after.members} == {"i0", "i1"}
    assert (after.epoch, len(after.rebalances)) == (before.epoch, len(before.rebalances))


@BOTH
def test_patterns_and_changed_subscriptions(groups_broker, topic, protocol):
    servers = groups_broker.bootstrap_servers
    second = f"{topic}-b"
    groups_broker.create_topic(second, 2)

    async def scenario():
        async with consumer_of(servers, topic, group_protocol=protocol) as consumer:

            async def reads(*names):
                async with asyncio.timeout(15):
                    while {name for name, _ in consumer.assignment} != set(names):
                        await consumer.poll(timeout_ms=20)

            consumer.subscribe(topic)
            await reads(topic)
            consumer.subscribe(topic, second)
            await reads(topic, second)
            consumer.subscribe(second)
            await reads(second)
            consumer.subscribe(pattern=topic.replace(".", "\\.") + ".*")
            await reads(topic, second)

    run(scenario())


def test_a_standalone_consumer_may_commit_to_a_group(groups_broker, topic):
    servers = groups_broker.bootstrap_servers

    async def scenario():
        await fill(servers, topic, 12)
        async with consumer_of(servers, topic) as consumer:
            await consumer.assign(topic, [0], start=1)
            assert [record.offset for record in await consumer.poll(timeout_ms=5000)] == [1]
        async with consumer_of(servers, topic) as consumer:
            assert await consumer.committed() == {(topic, 0): CommittedOffset(2)}
            member = Member(servers, topic, topic, "member")
            await wait_until_async(lambda: len(member.partitions) == PARTITIONS)
            with pytest.raises(BrokerError) as refused:
                await consumer.commit({(topic, 0): 1})
            await member.stop()
        return refused.value

    refused = run(scenario())
    assert refused.code == ErrorCode.UNKNOWN_MEMBER_ID
    assert refused.group == topic


def test_invalid_use_is_reported(groups_broker, topic):
    servers = groups_broker.bootstrap_servers

    async def scenario():
        async with Consumer(servers) as consumer:
            with pytest.raises(ClientError, match="subscribe needs a group"):
                consumer.subscribe(topic)
            with pytest.raises(ClientError, match="commit needs a group"):
                await consumer.commit({(topic, 0): 1})
            with pytest.raises(ClientError, match="assign partitions first"):
                await consumer.poll()
        async with Consumer(servers, group_id="g") as consumer:
            with pytest.raises(ValueError, match="names of topics, or a pattern"):
                consumer.subscribe()
            with pytest.raises(ClientError, match="subscribe or assign partitions first"):
                await consumer.poll()
            await consumer.assign(topic)
            with pytest.raises(ClientError, match="assigned manually"):
                consumer.subscribe(topic)
        async with Consumer(servers, group_id="g") as consumer:
            consumer.subscribe(topic)
            with pytest.raises(ClientError, match="the group assigns"):
                await consumer.assign(topic)
        with pytest.raises(ValueError, match="a group needs a name"):
            Consumer(servers, group_id="")
        with pytest.raises(ValueError, match="expected one of auto, consumer, classic"):
            Consumer(servers, group_id="g", group_protocol="new")

    run(scenario())


def test_the_admin_lists_describes_alters_and_deletes(groups_broker, topic):
    servers = groups_broker.bootstrap_servers

    async def scenario():
        await fill(servers, topic, 60)
        async with Admin(servers) as admin:
            with pytest.raises(UnknownGroupError):
                await admin.describe_group(topic)
            assert await admin.group_offsets(topic) == {}
            await admin.alter_group_offsets(topic, {(topic, 0): 4, (topic, 1): CommittedOffset(5, -1, "x")})
            offsets = await admin.group_offsets(topic)
            assert offsets == {(topic, 0): CommittedOffset(4), (topic, 1): CommittedOffset(5, -1, "x")}
            lags = await admin.group_lag(topic, members_read=[(topic, 2)], read_committed=True)
            assert [(row.partition, row.committed, row.end, row.lag) for row in lags] == [
                (0, 4, 10, 6),
                (1, 5, 10, 5),
                (2, -1, 10, -1),
            ]
            member = Member(servers, topic, topic, "reader")
            await wait_until_async(lambda: len(member.records) == 60 - 4 - 5)
            listed = {row.group_id: row for row in await admin.list_groups(["STABLE"], ["Consumer"])}
            assert listed[topic].state == "Stable"
            assert topic not in [row.group_id for row in await admin.list_groups(types=["classic"])]
            info = await admin.describe_group(topic)
            (only,) = info.members
            assert (only.client_id, only.client_host) == ("reader", "/127.0.0.1")
            assert (only.topics, only.type) == ([topic], "consumer")
            assert only.assignment == only.target == [(topic, number) for number in range(PARTITIONS)]
            assert only.member_id == member.consumer.member_id
            with pytest.raises(GroupNotEmptyError):
                await admin.alter_group_offsets(topic, {(topic, 0): 0})
            with pytest.raises(BrokerError) as refused:
                await admin.delete_group_offsets(topic, [(topic, 0)])
            assert refused.value.code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            await member.stop()
            await admin.delete_group_offsets(topic, [(topic, 0), (topic, 1)])
            assert set(await admin.group_offsets(topic)) == {(topic, n) for n in range(2, PARTITIONS)}
            await admin.delete_groups([topic])
            assert await admin.describe_groups([topic], missing_ok=True) == []

    run(scenario())


@BOTH
def test_the_coordinator_dies_and_no_record_is_lost(ottla_cluster_of_three, protocol):
    cluster = ottla_cluster_of_three
    servers = cluster.bootstrap_servers
    topic = f"coordinator-dies-{protocol}"
    cluster.create_topic(topic, PARTITIONS)

    async def scenario():
        await fill(servers, topic)
        members = [Member(servers, topic, topic, f"m{n}", group_protocol=protocol) for n in range(2)]
        await wait_until_async(lambda: shared(members), timeout_s=30)
        async with Admin(servers) as admin:
            coordinator = (await admin.describe_group(topic)).coordinator
        await asyncio.to_thread(cluster.kill, coordinator)
        await fill(servers, topic)
        wanted = {(number, offset) for number in range(PARTITIONS) for offset in range(20)}
        await wait_until_async(
            lambda: {record for each in members for record in each.records} == wanted, timeout_s=30
        )
        await wait_until_async(lambda: shared(members), timeout_s=30)
        for member in members:
            await member.stop()
        async with Admin(servers) as admin:
            lags = await admin.group_lag(topic)
        await asyncio.to_thread(cluster.start, coordinator)
        return lags

    lags = run(scenario(), 90)
    assert [(row.committed, row.lag) for row in lags] == [(20, 0)] * PARTITIONS


def test_range_assignment():
    wanted = {"a": ["t", "u"], "b": ["t"], "c": ["t", "u"]}
    assert assign_range(wanted, {"t": 7, "u": 1, "gone": 0}) == {
        "a": [("t", 0), ("t", 1), ("t", 2), ("u", 0)],
        "b": [("t", 3), ("t", 4)],
        "c": [("t", 5), ("t", 6)],
    }
    assert assign_range({}, {"t": 3}) == {}
