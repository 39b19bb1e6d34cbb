"""Reassignment, throttles, reads from the nearest replica, DeleteRecords, fetches of unknown replicas."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.net.peer import PeerLost
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.delete_records_response import DeleteRecordsResponse
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.protocol.messages.fetch_response import FetchResponse, PartitionData
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.produce_response import ProduceResponse
from ottla.records.build import build_batch
from tests.support.broker.replicated import FOLLOWER, LEADER, OTHER, TOPIC, Trio, play

SAFE = {"min.insync.replicas": "2"}
BY_RACK = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}


async def reassign(trio: Trio, *replicas: int) -> None:
    partition = ReassignablePartition(partition_index=0, replicas=list(replicas))
    topic = ReassignableTopic(name=TOPIC, partitions=[partition])
    answer = await trio.ask_controller(AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=5000))
    assert not answer.error_code and not answer.responses[0].partitions[0].error_code


async def configure(trio: Trio, kind: int, name: str, **values: str) -> None:
    configs = [AlterableConfig(name=key.replace("_", "."), value=value) for key, value in values.items()]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    answer = await trio.ask_controller(IncrementalAlterConfigsRequest(resources=[resource]))
    assert not answer.responses[0].error_code, answer.responses[0].error_message


async def fill(trio: Trio, mebibytes: int) -> None:
    for number in range(mebibytes * 2):
        value = bytes([number]) * (512 * 1024 - 200)
        data = PartitionProduceData(index=0, records=bytes(build_batch([(0, None, value, ())])))
        topic = TopicProduceData(topic_id=trio.topic_id, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[topic])
        answer = await trio.ask(LEADER, request, ProduceResponse)
        assert not answer.responses[0].partition_responses[0].error_code


def test_a_reassigned_partition_leaves_nothing_on_the_old_broker() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(replicas=(LEADER, FOLLOWER))
        for number in range(5):
            await trio.produce(f"v{number}")
        old_log = trio.partition(FOLLOWER).log
        await reassign(trio, LEADER, OTHER)
        await trio.until(lambda: trio.isr() == {LEADER, OTHER})
        await trio.until(lambda: trio.broker(FOLLOWER).partitions.by_name(TOPIC, 0) is None)
        assert trio.values(OTHER) == trio.values(LEADER)
        assert old_log.directory.endswith("-delete")
        assert not (await trio.produce("after")).error_code
        assert trio.values(OTHER)[-1] == "after"
        data = await trio.fetch(FOLLOWER)
        assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert data.current_leader.leader_id == LEADER

    play(scenario)


def test_the_replication_factor_goes_to_two_and_back() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(replicas=(LEADER,))
        await trio.produce("alone")
        assert trio.partition(LEADER).leader is None
        await reassign(trio, LEADER, FOLLOWER)
        await trio.until(lambda: trio.partition(LEADER).leader is not None)
        await trio.until(lambda: trio.isr() == {LEADER, FOLLOWER})
        assert not (await trio.produce("together")).error_code
        assert trio.values(FOLLOWER) == ["alone", "together"]
        await reassign(trio, LEADER)
        await trio.until(lambda: trio.partition(LEADER).leader is None)
        answer = await trio.produce("alone again")
        assert not answer.error_code and trio.partition(LEADER).high_watermark == 3

    play(scenario)


def test_the_leader_is_reassigned() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(replicas=(LEADER, FOLLOWER))
        await trio.produce("first")
        await reassign(trio, OTHER, FOLLOWER)
        await trio.until(lambda: trio.broker(LEADER).partitions.by_name(TOPIC, 0) is None)
        leader_id = trio.leader_id()
        await trio.until(lambda: trio.partition(leader_id).is_leader)
        assert not (await trio.produce("second", leader_id)).error_code
        assert trio.values(OTHER) == trio.values(FOLLOWER) == ["first", "second"]

    play(scenario)


def test_a_throttled_reassignment_is_slow_and_delays_no_other_partition() -> None:
    rate = {"leader_replication_throttled_rate": "100000", "follower_replication_throttled_rate": "100000"}
    lists = {"leader_replication_throttled_replicas": "0:1", "follower_replication_throttled_replicas": "0:3"}
    for which in ("leader", "follower"):

        async def scenario(trio: Trio, which: str = which) -> None:
            await trio.create(SAFE, replicas=(LEADER, FOLLOWER))
            await fill(trio, 4)
            for node in (LEADER, OTHER):
                name = f"{which}_replication_throttled_rate"
                await configure(trio, 4, str(node), **{name: rate[name]})
            name = f"{which}_replication_throttled_replicas"
            await configure(trio, 2, TOPIC, **{name: lists[name]})
            began = trio.world.loop.time()
            await reassign(trio, LEADER, FOLLOWER, OTHER)
            await asyncio.sleep(5)
            at_once = trio.world.loop.time()
            assert not (await trio.produce("not delayed")).error_code
            assert trio.world.loop.time() - at_once < 1
            await trio.until(lambda: trio.isr() == {LEADER, FOLLOWER, OTHER}, 100)
            # The quota of eleven seconds may be used at once; the rest of 4 MiB waits for the window to move.
            assert 15 < trio.world.loop.time() - began < 60

        play(scenario)


def test_consumers_are_redirected_to_the_replica_in_their_rack() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(SAFE)
        for number in range(3):
            await trio.produce(f"v{number}")
        await trio.until(lambda: trio.partition(OTHER).high_watermark == 3)
        data = await trio.fetch(LEADER, rack="rack3")
        assert (data.preferred_read_replica, data.records) == (OTHER, b"")
        near = await trio.fetch(OTHER, rack="rack3")
        assert near.records and near.high_watermark == 3 and near.preferred_read_replica == -1
        for rack in ("rack1", "nowhere", ""):
            data = await trio.fetch(LEADER, rack=rack)
            assert data.preferred_read_replica == -1 and data.records
        assert (await trio.fetch(OTHER, 99)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    play(scenario, BY_RACK)


def test_consumers_are_not_redirected_to_a_replica_that_has_just_died() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(SAFE)
        await trio.produce("first")
        await trio.until(lambda: trio.partition(OTHER).high_watermark == 1)
        assert (await trio.fetch(LEADER, rack="rack3")).preferred_read_replica == OTHER
        trio.nodes[OTHER].kill()
        await asyncio.sleep(0.05)
        assert trio.isr() == {LEADER, FOLLOWER, OTHER}, "the controller does not know yet"
        data = await trio.fetch(LEADER, rack="rack3")
        assert data.preferred_read_replica == -1 and data.records

    play(scenario, BY_RACK)


def test_a_consumer_of_a_follower_gets_new_records_soon() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(SAFE)
        await trio.produce("first")
        await trio.until(lambda: trio.partition(OTHER).high_watermark == 1)
        waiting = asyncio.ensure_future(trio.fetch(OTHER, 1, wait_ms=10_000))
        await asyncio.sleep(0.2)
        began = trio.world.loop.time()
        await trio.produce("second")
        data = await waiting
        assert data.records and trio.world.loop.time() - began < 0.2

    play(scenario)


def test_delete_records_responds_when_every_live_replica_has_deleted() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(SAFE)
        for number in range(10):
            await trio.produce(f"v{number}")

        async def delete(offset: int, timeout_ms: int = 5000) -> tuple[int, int]:
            partition = DeleteRecordsPartition(partition_index=0, offset=offset)
            topic = DeleteRecordsTopic(name=TOPIC, partitions=[partition])
            request = DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)
            answer = await trio.ask(LEADER, request, DeleteRecordsResponse)
            result = answer.topics[0].partitions[0]
            return result.error_code, result.low_watermark

        assert await delete(4) == (0, 4)
        assert [trio.partition(node).log.log_start_offset for node in trio.nodes] == [4, 4, 4]
        trio.world.network.block("node2", "node1")
        assert await delete(6, 300) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        trio.world.network.heal()
        assert await delete(-1) == (0, 10)

    play(scenario)


def test_delete_records_leaves_no_waiter_behind() -> None:
    """After a time-out, after the client has left, and if another partition of the request moved last."""

    async def scenario(trio: Trio) -> None:
        await trio.create(SAFE, partitions=2)
        for index in (0, 1):
            await trio.produce("value", index=index)

        def request(timeout_ms: int) -> DeleteRecordsRequest:
            wanted = [DeleteRecordsPartition(partition_index=index, offset=1) for index in (0, 1)]
            topic = DeleteRecordsTopic(name=TOPIC, partitions=wanted)
            return DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)

        def waiters() -> list[int]:
            return [len(trio.partition(LEADER, index)._low_watermark_waiters or ()) for index in (0, 1)]

        trio.world.network.block("node2", "node1")
        for _ in range(5):
            answer = await trio.ask(LEADER, request(20), DeleteRecordsResponse)
            codes = {result.error_code for result in answer.topics[0].partitions}
            assert codes == {ErrorCode.REQUEST_TIMED_OUT}
        assert waiters() == [0, 0]
        asking = asyncio.ensure_future(trio.ask(LEADER, request(60_000), DeleteRecordsResponse))
        await trio.until(lambda: waiters() == [1, 1])
        trio.world.network.break_connections("node1", "world")
        with pytest.raises(PeerLost):
            await asking
        await trio.until(lambda: waiters() == [0, 0])
        asking = asyncio.ensure_future(trio.ask(LEADER, request(60_000), DeleteRecordsResponse))
        await trio.until(lambda: waiters() == [1, 1])
        trio.world.network.heal()
        await asking
        assert waiters() == [0, 0]

    play(scenario)


def test_a_fetch_of_an_unknown_replica_is_refused() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(SAFE, replicas=(LEADER, FOLLOWER))
        await trio.produce("first")
        leader = trio.partition(LEADER).leader
        assert leader is not None

        async def fetch(node_id: int, epoch: int, broker_epoch: int = -1) -> PartitionData:
            wanted = FetchPartition(
                partition=0, fetch_offset=1, current_leader_epoch=epoch, partition_max_bytes=1 << 20
            )
            request = FetchRequest(
                replica_state=ReplicaState(replica_id=node_id, replica_epoch=broker_epoch),
                topics=[FetchTopic(topic_id=trio.topic_id, partitions=[wanted])],
            )
            answer = await trio.ask(LEADER, request, FetchResponse)
            return answer.responses[0].partitions[0]

        assert (await fetch(OTHER, leader.leader_epoch)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert (await fetch(OTHER, -1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await fetch(77, leader.leader_epoch)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert (await fetch(FOLLOWER, leader.leader_epoch + 1)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        stale = await fetch(FOLLOWER, leader.leader_epoch, broker_epoch=0)
        assert stale.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH, "an incarnation that has been replaced"
        assert set(leader.followers) == {FOLLOWER}

    play(scenario)


def test_a_follower_below_the_leaders_log_start_restarts_there() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(replicas=(LEADER, FOLLOWER))
        for number in range(3):
            await trio.produce(f"v{number}")
        trio.nodes[FOLLOWER].kill()
        await trio.until(lambda: trio.isr() == {LEADER})
        for number in range(3, 8):
            assert not (await trio.produce(f"v{number}")).error_code
        partition = DeleteRecordsPartition(partition_index=0, offset=6)
        topic = DeleteRecordsTopic(name=TOPIC, partitions=[partition])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=5000)
        await trio.ask(LEADER, request, DeleteRecordsResponse)
        await trio.nodes[FOLLOWER].start()
        await trio.until(lambda: trio.isr() == {LEADER, FOLLOWER})
        log = trio.partition(FOLLOWER).log
        assert (log.log_start_offset, log.log_end_offset) == (6, 8)

    play(scenario)
