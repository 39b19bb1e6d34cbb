"""Members of groups in the simulated world, of both protocols.

As real clients do, a member gives up what it owns when its session is over by its own clock: counted from
when it sent the last heartbeat that was answered, so that it is never later than the coordinator.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.heartbeat_response import HeartbeatResponse
from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.join_group_response import JoinGroupResponse
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.leave_group_response import LeaveGroupResponse
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
from ottla.testing.simulation.clients import REQUEST_TIMEOUT_MS, Address, Client, NotNow, Response
from ottla.testing.simulation.group_ledger import GroupLedger
from ottla.testing.simulation.world import World

SESSION_MS = 4_000
REBALANCE_MS = 8_000
BEAT_S = (0.1, 0.5)
PROPERTIES = {
    "group.initial.rebalance.delay.ms": "300",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "offsets.topic.num.partitions": "3",
}
_LOST = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
)


class GroupMember(Client):
    """What is the same in both protocols: the coordinator, the session, offsets."""

    def __init__(self, world: World, name: str, topic: str, partitions: int, ledger: GroupLedger) -> None:
        super().__init__(world, name, topic)
        self.ledger = ledger
        self.partitions = partitions
        self.stopping = False
        self.leaves = True
        self.owned: dict[int, int] = {}  # and the offset to commit next
        self.member_id = ""
        self.epoch = 0  # or generation
        self._coordinator: Address | None = None
        self._alive_until_s = 0.0

    async def run(self) -> None:
        watching = asyncio.ensure_future(self._watch())
        try:
            while not self.stopping:
                try:
                    await self.take_part()
                except NotNow:
                    await self.back_off()
            self.drop(self.owned)
            if self.leaves and self.member_id:
                with contextlib.suppress(NotNow):
                    await self.leave()
        finally:
            watching.cancel()
            await self.close()

    async def take_part(self) -> None:
        raise NotImplementedError

    async def leave(self) -> None:
        raise NotImplementedError

    async def _watch(self) -> None:
        """The session is over when nobody has answered for so long."""
        while True:
            now_s = self.world.loop.time()
            if now_s >= self._alive_until_s:
                self.drop(self.owned)
            await asyncio.sleep(max(0.01, self._alive_until_s - now_s))

    def take(self, partitions: list[int]) -> None:
        if self.stopping:
            return
        for partition in partitions:
            if partition not in self.owned:
                self.owned[partition] = -1
                self.ledger.taken(self.name, partition)

    def drop(self, partitions: Any) -> None:
        for partition in list(partitions):
            if self.owned.pop(partition, None) is not None:
                self.ledger.dropped(self.name, partition)

    async def ask_coordinator(
        self, message: Message, response: type[Response], *, timeout_ms: float = REQUEST_TIMEOUT_MS
    ) -> Response:
        """The answer; NotNow if there is none or it is no longer the coordinator that was asked."""
        if self._coordinator is None:
            asked = FindCoordinatorRequest(coordinator_keys=[self.ledger.group])
            (found,) = (await self.ask_anyone(asked, FindCoordinatorResponse)).coordinators
            if found.error_code:
                raise NotNow(f"no coordinator: {found.error_code}")
            self._coordinator = (found.host, found.port)
        try:
            return await self.ask(self._coordinator, message, response, timeout_ms=timeout_ms)
        except NotNow:
            self._coordinator = None
            raise

    def check(self, code: int) -> ErrorCode:
        """The code, unless it says to look for another coordinator or to come again."""
        if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            self._coordinator = None
            raise NotNow("another coordinator")
        if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise NotNow("the coordinator is loading")
        return ErrorCode(code)

    def alive_since(self, sent_s: float) -> None:
        self._alive_until_s = max(self._alive_until_s, sent_s + SESSION_MS / 1000)

    # -- offsets

    async def work(self) -> None:
        """Read a little further in one partition, if there is one."""
        if self.owned:
            partition = self.rng.choice(list(self.owned))
            if self.owned[partition] < 0:
                await self._find_offset(partition)
            else:
                await self._commit(partition)

    async def _topic(self) -> bytes:
        if self.topic_id == bytes(16):
            await self.refresh()
        return self.topic_id

    async def _find_offset(self, partition: int) -> None:
        wanted = OffsetFetchRequestTopics(topic_id=await self._topic(), partition_indexes=[partition])
        group = OffsetFetchRequestGroup(group_id=self.ledger.group, topics=[wanted])
        sent_s = self._alive_until_s
        answer = await self.ask_coordinator(OffsetFetchRequest(groups=[group]), OffsetFetchResponse)
        self.check(answer.groups[0].error_code)
        if answer.groups[0].error_code or partition not in self.owned or sent_s < self.world.loop.time():
            return
        found = answer.groups[0].topics[0].partitions[0].committed_offset
        self.ledger.fetched(self.name, partition, found)
        self.owned[partition] = found + 1

    async def _commit(self, partition: int) -> None:
        offset = self.owned[partition]
        part = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        topic = OffsetCommitRequestTopic(topic_id=await self._topic(), partitions=[part])
        request = OffsetCommitRequest(
            group_id=self.ledger.group,
            member_id=self.member_id,
            generation_id_or_member_epoch=self.epoch,
            topics=[topic],
        )
        self.ledger.attempts(partition, offset)
        if partition in self.owned:
            self.owned[partition] = -1  # until it is known whether it worked
        answer = await self.ask_coordinator(request, OffsetCommitResponse)
        if self.check(answer.topics[0].partitions[0].error_code) == ErrorCode.NONE:
            self.ledger.acknowledged(partition, offset)
            if partition in self.owned:
                self.owned[partition] = offset + 1


class ClassicMember(GroupMember):
    """Eager: it gives up everything before it joins again."""

    async def take_part(self) -> None:
        sent_s = self.world.loop.time()
        joined = await self.ask_coordinator(
            self._joining(), JoinGroupResponse, timeout_ms=REBALANCE_MS + REQUEST_TIMEOUT_MS
        )
        code = self.check(joined.error_code)
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            return
        if code:
            self._lost(code)
            return
        self.member_id, self.epoch = joined.member_id, joined.generation_id
        sent_s = self.world.loop.time()
        synced = await self.ask_coordinator(self._syncing(joined), SyncGroupResponse)
        code = self.check(synced.error_code)
        if code:
            self._lost(code)
            return
        self.alive_since(sent_s)
        self.take(json.loads(bytes(synced.assignment) or b"[]"))
        await self._stay()

    def _lost(self, code: ErrorCode) -> None:
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self.drop(self.owned)

    def _joining(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.ledger.group,
            member_id=self.member_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="simulated",
            protocols=[JoinGroupRequestProtocol(name="turns", metadata=b"")],
        )

    def _syncing(self, joined: JoinGroupResponse) -> SyncGroupRequest:
        members = sorted(member.member_id for member in joined.members)
        given = [
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=json.dumps(list(range(self.partitions))[number :: len(members)]).encode(),
            )
            for number, member_id in enumerate(members)
        ]
        return SyncGroupRequest(
            group_id=self.ledger.group,
            member_id=self.member_id,
            generation_id=self.epoch,
            protocol_type="simulated",
            protocol_name="turns",
            assignments=given,
        )

    async def _stay(self) -> None:
        """Heartbeats and work until the group moves or the session is over."""
        while not self.stopping and self.world.loop.time() < self._alive_until_s:
            try:
                sent_s = self.world.loop.time()
                beat = HeartbeatRequest(
                    group_id=self.ledger.group, member_id=self.member_id, generation_id=self.epoch
                )
                answer = await self.ask_coordinator(beat, HeartbeatResponse)
                code = self.check(answer.error_code)
                if code:
                    self._lost(code)  # also when it is to join again: eager
                    return
                self.alive_since(sent_s)
                await self.work()
            except NotNow:
                await self.back_off()
            await asyncio.sleep(self.rng.uniform(*BEAT_S))
        self.drop(self.owned)

    async def leave(self) -> None:
        members = [MemberIdentity(member_id=self.member_id)]
        request = LeaveGroupRequest(group_id=self.ledger.group, members=members)
        await self.ask_coordinator(request, LeaveGroupResponse)


class ConsumerMember(GroupMember):
    """KIP-848: partitions come and go one by one with the heartbeats."""

    def __init__(self, world: World, name: str, topic: str, partitions: int, ledger: GroupLedger) -> None:
        super().__init__(world, name, topic, partitions, ledger)
        self.member_id = f"{name}-{world.rng(name).getrandbits(32):x}"

    async def take_part(self) -> None:
        sent_s = self.world.loop.time()
        if self.epoch and sent_s >= self._alive_until_s:
            self.epoch = 0  # it gave up everything, and says so
        answer = await self.ask_coordinator(await self._beat(), ConsumerGroupHeartbeatResponse)
        code = self.check(answer.error_code)
        if code in _LOST:
            self.drop(self.owned)
            self.epoch = 0
            return
        if code:
            raise NotNow(f"heartbeat: {code!r} {answer.error_message}")
        self.epoch = answer.member_epoch
        self.alive_since(sent_s)
        if answer.assignment is not None and self.world.loop.time() < self._alive_until_s:
            given = [number for each in answer.assignment.topic_partitions for number in each.partitions]
            self.drop([number for number in self.owned if number not in given])
            self.take(given)
        await self.work()
        await asyncio.sleep(self.rng.uniform(*BEAT_S))

    async def _beat(self) -> ConsumerGroupHeartbeatRequest:
        owned = [TopicPartitions(topic_id=await self._topic(), partitions=list(self.owned))]
        return ConsumerGroupHeartbeatRequest(
            group_id=self.ledger.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=[self.topic],
            topic_partitions=owned if self.owned and self.epoch else [],
        )

    async def leave(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.ledger.group, member_id=self.member_id, member_epoch=-1
        )
        await self.ask_coordinator(request, ConsumerGroupHeartbeatResponse)
