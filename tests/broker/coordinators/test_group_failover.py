"""Groups on three brokers in virtual time: committed state survives, and the next coordinator is found."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.hashing import java_hash_partition
from ottla.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.heartbeat_response import HeartbeatResponse
from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.join_group_response import JoinGroupResponse
from ottla.protocol.messages.list_groups_request import ListGroupsRequest
from ottla.protocol.messages.list_groups_response import ListGroupsResponse
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_commit_response import OffsetCommitResponse
from ottla.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.offset_fetch_response import OffsetFetchResponse
from ottla.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.sync_group_response import SyncGroupResponse
from tests.support.broker.replicated import TOPIC, Trio, play

GROUP = "readers"
COME_AGAIN = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


async def find(trio: Trio, node_id: int) -> int:
    asked = FindCoordinatorRequest(coordinator_keys=[GROUP])
    while True:
        answer = await trio.ask(node_id, asked, FindCoordinatorResponse)
        (found,) = answer.coordinators
        if not found.error_code:
            return found.node_id
        assert found.error_code in COME_AGAIN
        await pause()


async def pause(seconds: float = 0.05) -> None:
    await asyncio.sleep(seconds)


def joining(member_id: str = "", **fields: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=GROUP,
        member_id=member_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
        **fields,
    )


async def join(trio: Trio, node_id: int) -> JoinGroupResponse:
    """The only member of a group, after SyncGroup."""
    first = await trio.ask(node_id, joining(), JoinGroupResponse)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    joined = await trio.ask(node_id, joining(first.member_id), JoinGroupResponse)
    assert joined.error_code == 0
    sync = SyncGroupRequest(
        group_id=GROUP,
        member_id=joined.member_id,
        generation_id=joined.generation_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"a")],
    )
    assert (await trio.ask(node_id, sync, SyncGroupResponse)).assignment == b"a"
    return joined


def heartbeat(member: JoinGroupResponse) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=GROUP, member_id=member.member_id, generation_id=member.generation_id)


def committing(trio: Trio, member: JoinGroupResponse, offset: int) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=GROUP,
        member_id=member.member_id,
        generation_id_or_member_epoch=member.generation_id,
        topics=[
            OffsetCommitRequestTopic(
                topic_id=trio.topic_id,
                partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)],
            )
        ],
    )


async def committed(trio: Trio, node_id: int) -> int:
    topics = [OffsetFetchRequestTopics(topic_id=trio.topic_id, partition_indexes=[0])]
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)])
    answer = await trio.ask(node_id, asked, OffsetFetchResponse)
    assert not answer.groups[0].error_code
    return answer.groups[0].topics[0].partitions[0].committed_offset


def other(trio: Trio, coordinator: int) -> int:
    return next(node_id for node_id in trio.nodes if node_id != coordinator)


def test_members_and_offsets_survive_the_coordinator() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create()
        coordinator = await find(trio, 1)
        member = await join(trio, coordinator)
        answer = await trio.ask(coordinator, committing(trio, member, 42), OffsetCommitResponse)
        assert answer.topics[0].partitions[0].error_code == 0
        trio.nodes[coordinator].kill()
        left = other(trio, coordinator)
        await trio.until(lambda: _leader(trio, left) not in (-1, coordinator))
        successor = await find(trio, left)
        assert successor != coordinator
        while (await trio.ask(successor, heartbeat(member), HeartbeatResponse)).error_code in COME_AGAIN:
            await pause()
        assert (await trio.ask(successor, heartbeat(member), HeartbeatResponse)).error_code == 0
        assert await committed(trio, successor) == 42
        listed = await trio.ask(successor, ListGroupsRequest(), ListGroupsResponse)
        assert [(group.group_id, group.group_state) for group in listed.groups] == [(GROUP, "Stable")]

    play(scenario)


def _leader(trio: Trio, node_id: int) -> int:
    image = trio.broker(node_id).metadata.image.topics_by_name["__consumer_offsets"]
    return image.partitions[java_hash_partition(GROUP, len(image.partitions))].leader


def test_waiting_requests_are_refused_when_leadership_moves() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create()
        coordinator = await find(trio, 1)
        member = await join(trio, coordinator)
        # A second member waits for the first to join again.
        second = await trio.ask(coordinator, joining(), JoinGroupResponse)
        waiting = trio.world.loop.create_task(
            trio.ask(coordinator, joining(second.member_id), JoinGroupResponse)
        )
        await pause()
        assert not waiting.done()
        refused = await trio.ask(other(trio, coordinator), heartbeat(member), HeartbeatResponse)
        assert refused.error_code == ErrorCode.NOT_COORDINATOR
        await trio.nodes[coordinator].stop()
        assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
        successor = await find(trio, other(trio, coordinator))
        while (await trio.ask(successor, heartbeat(member), HeartbeatResponse)).error_code in COME_AGAIN:
            await pause()
        # Its join was soft state; the group is restored from its record.
        assert (await trio.ask(successor, heartbeat(member), HeartbeatResponse)).error_code == 0

    play(scenario)


def test_without_enough_replicas_nothing_is_acknowledged() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create()
        coordinator = await find(trio, 1)
        member = await join(trio, coordinator)
        for node_id, node in trio.nodes.items():
            if node_id != coordinator:
                node.kill()
        answer = await trio.ask(coordinator, committing(trio, member, 7), OffsetCommitResponse)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    play(scenario, {"min.insync.replicas": "2", "replica.lag.time.max.ms": "2000"})


def test_members_of_the_consumer_protocol_get_new_topics() -> None:
    """Offsets are deleted with their topic."""

    async def scenario(trio: Trio) -> None:
        coordinator = await find(trio, 1)
        fields: dict[str, Any] = {
            "rebalance_timeout_ms": 10_000,
            "subscribed_topic_names": ["events"],
            "topic_partitions": [],
        }
        epoch = 0

        async def beat() -> dict[bytes, list[int]] | None:
            nonlocal epoch, fields
            asked = ConsumerGroupHeartbeatRequest(
                group_id=GROUP, member_id="one", member_epoch=epoch, **fields
            )
            answer = await trio.ask(coordinator, asked, ConsumerGroupHeartbeatResponse)
            assert answer.error_code == 0, answer
            epoch, fields = answer.member_epoch, {}
            if answer.assignment is None:
                return None
            return {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}

        assert await beat() == {}
        await trio.create()
        topic_id = trio.topic_id
        await pause(2)
        assert await beat() == {topic_id: [0]}
        member = JoinGroupResponse(member_id="one", generation_id=epoch)
        answer = await trio.ask(coordinator, committing(trio, member, 5), OffsetCommitResponse)
        assert answer.topics[0].partitions[0].error_code == 0
        more = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=TOPIC, count=3, assignments=None)], timeout_ms=5000
        )
        assert (await trio.ask_controller(more)).results[0].error_code == 0
        await pause(2)
        assert await beat() == {topic_id: [0, 1, 2]}
        assert await committed(trio, coordinator) == 5
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=5000)
        assert (await trio.ask_controller(gone)).responses[0].error_code == 0
        await pause(2)
        await trio.create()
        assert await committed(trio, coordinator) == -1

    play(scenario)
