"""Lightweight members of consumer groups: they join and send heartbeats as clients do, and read nothing.

All of them share one event loop. In the steady state their requests are prepared, and every response is
compared with the first one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Self, TypeVar

from bench.broker import BenchError
from bench.wire import CLIENT_ID, Server
from ottla.client.core.group_wire import read_assignment, write_assignment, write_subscription
from ottla.protocol.errors import ErrorCode
from ottla.protocol.frames import encode_request, read_response_header
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
from ottla.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.sync_group_response import SyncGroupResponse

JOIN_VERSION = 9
SYNC_VERSION = 5
HEARTBEAT_VERSION = 4
FIND_COORDINATOR_VERSION = 4
CONSUMER_HEARTBEAT_VERSION = 1
SESSION_TIMEOUT_MS = 45_000
REBALANCE_TIMEOUT_MS = 300_000
ANSWER_SECONDS_MAX = 60
CLASSIC_INTERVAL_MS = 3000  # default of clients of the classic protocol
LOOK_SECONDS = 0.02
CONNECTING_MAX = 64  # concurrent connection attempts; fits the backlog of a listener
NOT_YET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_SIZE = Struct(">i")

AnyMessage = TypeVar("AnyMessage", bound=Message)


class MemberWire(asyncio.Protocol):
    """One connection; responses arrive in the order of the requests."""

    def __init__(self) -> None:
        self._rest = b""
        self._takers: deque[Callable[[bytes], None]] = deque()
        self._transport: Any = None
        self.closed = False

    @classmethod
    async def open(cls, server: Server) -> Self:
        _, wire = await asyncio.get_running_loop().create_connection(cls, *server.host_and_port)
        return wire

    def close(self) -> None:
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        begin = 0
        while len(data) - begin >= _SIZE.size:
            end = begin + _SIZE.size + _SIZE.unpack_from(data, begin)[0]
            if end > len(data):
                break
            self._takers.popleft()(data[begin + _SIZE.size : end])
            begin = end
        self._rest = data[begin:]

    def send(self, frame: bytes, taker: Callable[[bytes], None]) -> None:
        """Send a frame; `taker` is called with the response, without its size."""
        if self.closed:
            raise BenchError("the broker closed the connection")
        self._takers.append(taker)
        self._transport.write(frame)

    async def exchange(self, frame: bytes) -> bytes:
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.send(frame, lambda answer: None if answered.done() else answered.set_result(answer))
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            return await answered

    async def call(self, version: int, message: Message, answer_class: type[AnyMessage]) -> AnyMessage:
        frame = await self.exchange(encode_request(version, 1, CLIENT_ID, message))
        _, position = read_response_header(message.API_KEY, version, frame)
        return answer_class.decode(version, frame, position)


class ClassicMember:
    """A member of the classic protocol. The leader assigns the partitions of one topic round-robin."""

    def __init__(self, wire: MemberWire, group_id: str, topic: str, partitions: int) -> None:
        self.wire = wire
        self.group_id = group_id
        self.member_id = ""
        self.generation = -1
        self.owned = 0
        self._topic = topic
        self._partitions = partitions

    async def join(self) -> None:
        """Wait until the member has its assignment."""
        while True:
            joined = await self.wire.call(JOIN_VERSION, self._join_request(), JoinGroupResponse)
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = joined.member_id
            elif not _is_refused(joined.error_code, f"JoinGroup of {self.group_id}"):
                self.generation = joined.generation_id
                is_leader = joined.leader == self.member_id
                request = self._sync_request(joined.members if is_leader else ())
                synced = await self.wire.call(SYNC_VERSION, request, SyncGroupResponse)
                if not _is_refused(synced.error_code, f"SyncGroup of {self.group_id}"):
                    self.owned = len(read_assignment(synced.assignment))
                    return

    def _join_request(self) -> JoinGroupRequest:
        protocol = JoinGroupRequestProtocol(name="range", metadata=write_subscription([self._topic]))
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[protocol],
        )

    def _sync_request(self, members: Sequence[JoinGroupResponseMember]) -> SyncGroupRequest:
        assignments = []
        for number, member in enumerate(members):
            dealt = [(self._topic, index) for index in range(number, self._partitions, len(members))]
            assignments.append(
                SyncGroupRequestAssignment(member_id=member.member_id, assignment=write_assignment(dealt))
            )
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )

    def heartbeat(self) -> bytes:
        """Return the frame of a heartbeat without changes."""
        request = HeartbeatRequest(
            group_id=self.group_id, generation_id=self.generation, member_id=self.member_id
        )
        return encode_request(HEARTBEAT_VERSION, 1, CLIENT_ID, request)


class ConsumerMember:
    """A member of the consumer protocol (KIP-848), which revokes and takes partitions immediately."""

    def __init__(self, wire: MemberWire, group_id: str, topic: str, number: int) -> None:
        self.wire = wire
        self.group_id = group_id
        self.member_id = f"{group_id}-{number}"
        self.epoch = 0
        self.owned = 0
        self._topic = topic
        self._assigned: dict[bytes, list[int]] = {}
        self._has_news = False  # its partitions changed since the last heartbeat

    async def step(self) -> float:
        """Send a heartbeat; return the number of seconds until the next one."""
        request = self._request()
        if self.epoch == 0:
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
            request.subscribed_topic_names = [self._topic]
            request.topic_partitions = []
        elif self._has_news:
            request.topic_partitions = [
                TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in self._assigned.items()
            ]
        answer = await self.wire.call(CONSUMER_HEARTBEAT_VERSION, request, ConsumerGroupHeartbeatResponse)
        _is_refused(answer.error_code, f"ConsumerGroupHeartbeat of {self.group_id}", ())
        self.epoch = answer.member_epoch
        self._has_news = False
        if answer.assignment is not None:
            told = {bytes(each.topic_id): each.partitions for each in answer.assignment.topic_partitions}
            self._has_news = told != self._assigned
            self._assigned = told
            self.owned = sum([len(partitions) for partitions in told.values()])
        return 0 if self._has_news else answer.heartbeat_interval_ms / 1000

    async def live(self) -> None:
        """Send heartbeats until cancelled."""
        while True:
            pause_s = await self.step()
            if pause_s:
                await asyncio.sleep(pause_s)

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch
        )

    def heartbeat(self) -> bytes:
        """Return the frame of a heartbeat without changes."""
        return encode_request(CONSUMER_HEARTBEAT_VERSION, 1, CLIENT_ID, self._request())


async def open_wires(server: Server, count: int) -> list[MemberWire]:
    wires: list[MemberWire] = []
    while len(wires) < count:
        some = min(CONNECTING_MAX, count - len(wires))
        wires += await asyncio.gather(*[MemberWire.open(server) for _ in range(some)])
    return wires


async def find_coordinator(wire: MemberWire, group_id: str) -> None:
    """Have `__consumer_offsets` created, and wait until the coordinator is usable."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id])
    async with asyncio.timeout(ANSWER_SECONDS_MAX):
        while True:
            answer = await wire.call(FIND_COORDINATOR_VERSION, request, FindCoordinatorResponse)
            if not answer.coordinators[0].error_code and await _coordinates(wire, group_id):
                return
            await asyncio.sleep(LOOK_SECONDS)


async def _coordinates(wire: MemberWire, group_id: str) -> bool:
    """Return whether the coordinator has loaded its partition; it may be named before that."""
    knock = HeartbeatRequest(group_id=group_id, member_id="nobody")
    answer = await wire.call(HEARTBEAT_VERSION, knock, HeartbeatResponse)
    return answer.error_code not in NOT_YET


def _is_refused(
    error_code: int, what: str, bearable: Sequence[ErrorCode] = (ErrorCode.REBALANCE_IN_PROGRESS,)
) -> bool:
    """Return whether to retry; raise BenchError if the error cannot be retried."""
    if error_code and error_code not in bearable:
        raise BenchError(f"{what}: error code {error_code}")
    return bool(error_code)
