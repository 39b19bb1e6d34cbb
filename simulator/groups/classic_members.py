"""Members that use the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Eager members revoke all partitions before they rejoin. Cooperative members keep their partitions and report
them; the leader assigns no partition that another member still owns, and a member that revokes partitions
rejoins afterwards.
"""

from __future__ import annotations

import asyncio
from struct import Struct

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import consumer_protocol_assignment, consumer_protocol_subscription
from ottla.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.heartbeat_response import HeartbeatResponse
from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.leave_group_response import LeaveGroupResponse
from ottla.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.sync_group_response import SyncGroupResponse
from simulator.clients.base import RetryLater
from simulator.groups.members import GroupMember

PROTOCOL_TYPE = "consumer"
EMBEDDED_VERSION = 3
JOIN_GRACE_MS = 4_000
NO_GENERATION = -1

_VERSION = Struct(">h")


class ClassicMember(GroupMember):
    cooperative = False
    protocol_name = "range"

    _must_join = True
    _joining = False
    _missed_some = False

    @property
    def is_settled(self) -> bool:
        return not (self._must_join or self._joining or self.lost)

    # -- heartbeats

    async def heartbeat_loop(self) -> None:
        while True:
            await asyncio.sleep(self.timing.heartbeat_ms / 1000)
            if not self._joining and not self.lost and self.epoch >= 0:
                try:
                    await self._heartbeat()
                except RetryLater:
                    continue

    async def _heartbeat(self) -> None:
        epoch, sent_ns = self.epoch, self.group.now_ns
        request = HeartbeatRequest(
            group_id=self.group.group_id,
            generation_id=epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        answer, node_id = await self.request_coordinator(request, HeartbeatResponse)
        if self._joining or self.epoch != epoch:
            return  # stale
        code = answer.error_code
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self.record_contact(sent_ns, node_id, clean=not code and not self._must_join)
            if code:
                self._must_join = True
        else:
            self._handle_member_error(code)

    def _handle_member_error(self, code: int) -> None:
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self.ended = True
        elif code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        elif code != ErrorCode.ILLEGAL_GENERATION:
            self.world.history.surprise(self.name, f"{self.group.group_id}: {ErrorCode(code).name}")
        self.lost = ErrorCode(code).name

    def on_rejected(self, code: int) -> None:
        self._handle_member_error(code)

    # -- rebalances

    async def follow_group(self) -> None:
        if self.lost:
            self._drop()
        while self._must_join and not (self.leaving or self.ended):
            if not self.cooperative and self.holds:
                await self.commit()
                self.release(list(self.holds), "rebalance")
            if self.lost:
                self._drop()
            self._joining = True
            try:
                await self._join()
            except RetryLater:
                await self.back_off()
            finally:
                self._joining = False
            if self.lost:
                self._drop()

    def _drop(self) -> None:
        self.release(list(self.holds), f"lost: {self.lost}")
        self.lost = ""
        self.epoch = NO_GENERATION
        self._must_join = True

    async def _join(self) -> None:
        self.rebalances += 1
        if not self.member_id:
            self.supersede()
        sent_ns = self.group.now_ns
        request = JoinGroupRequest(
            group_id=self.group.group_id,
            session_timeout_ms=self.timing.session_ms,
            rebalance_timeout_ms=self.timing.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=self.protocol_name, metadata=self._subscription())],
        )
        answer, node_id = await self.request_coordinator(
            request, JoinGroupResponse, timeout_ms=self.timing.rebalance_ms + JOIN_GRACE_MS
        )
        code = answer.error_code
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
            raise RetryLater(f"join: {code}")
        elif code:
            self._handle_member_error(code)
        else:
            # A static member that missed a generation stays a member; its partitions may be reassigned.
            self._missed_some = 0 <= self.epoch < answer.generation_id - 1
            self.member_id, self.epoch = answer.member_id, answer.generation_id
            self.record_contact(sent_ns, node_id, clean=True, joined=True)
            await self._sync(answer)

    async def _sync(self, joined: JoinGroupResponse) -> None:
        shares: dict[str, list[int]] = {}
        if joined.leader == joined.member_id and joined.members and not joined.skip_assignment:
            shares = self._assign(joined.members)
            self.group.trace(self.name, f"assigns in {joined.generation_id}: {shares}")
        sent_ns = self.group.now_ns
        request = SyncGroupRequest(
            group_id=self.group.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=self._assignment(share))
                for member_id, share in shares.items()
            ],
        )
        timeout_ms = self.timing.rebalance_ms + JOIN_GRACE_MS
        answer, node_id = await self.request_coordinator(request, SyncGroupResponse, timeout_ms=timeout_ms)
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return
        if answer.error_code:
            self._handle_member_error(answer.error_code)
            return
        self._must_join = False
        self.record_contact(sent_ns, node_id, clean=True, joined=True)
        await self._take_share(_read_assignment(bytes(answer.assignment)))

    async def _take_share(self, share: list[int]) -> None:
        revoked = [index for index in self.holds if index not in share]
        if revoked:
            await self.process_slowly()
            # The next rebalance assigns these to other members.
            if not self._missed_some:
                await self.commit(revoked)
            self.release(revoked, "revoked")
            self._must_join = True
        if self._missed_some:
            self.release(list(self.holds), "missed a generation")
        self.take(share)

    async def leave(self) -> None:
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        if self.member_id and not (self.leave_for_restart and self.instance_id):
            request = LeaveGroupRequest(group_id=self.group.group_id, members=[identity])
            try:
                await self.request_coordinator(request, LeaveGroupResponse)
            except RetryLater:
                return

    # -- embedded consumer protocol

    def _subscription(self) -> bytes:
        owned = consumer_protocol_subscription.TopicPartition(topic=self.topic, partitions=sorted(self.holds))
        message = ConsumerProtocolSubscription(
            topics=[self.topic],
            owned_partitions=[owned] if self.holds else [],
            generation_id=self.epoch,
        )
        return _VERSION.pack(EMBEDDED_VERSION) + message.encode(EMBEDDED_VERSION)

    def _assignment(self, share: list[int]) -> bytes:
        row = consumer_protocol_assignment.TopicPartition(topic=self.topic, partitions=share)
        message = ConsumerProtocolAssignment(assigned_partitions=[row] if share else [])
        return _VERSION.pack(EMBEDDED_VERSION) + message.encode(EMBEDDED_VERSION)

    def _assign(self, members: list[JoinGroupResponseMember]) -> dict[str, list[int]]:
        """Assign ranges in the order of members, without partitions that another member still owns."""
        order = sorted(members, key=lambda member: member.group_instance_id or member.member_id)
        owners = _owners(members) if self.cooperative else {}
        shares: dict[str, list[int]] = {member.member_id: [] for member in members}
        for index in range(self.partitions):
            wanted = order[index * len(order) // self.partitions].member_id
            if owners.get(index, wanted) == wanted:
                shares[wanted].append(index)
        return shares


class CooperativeMember(ClassicMember):
    cooperative = True
    protocol_name = "cooperative-range"


def _owners(members: list[JoinGroupResponseMember]) -> dict[int, str]:
    """Map partitions to the members that report them; the newer generation wins."""
    found: dict[int, tuple[int, str]] = {}
    for member in members:
        data = bytes(member.metadata)
        version = min(_VERSION.unpack_from(data)[0], EMBEDDED_VERSION)
        reported = ConsumerProtocolSubscription.read(version, data, _VERSION.size)[0]
        for row in reported.owned_partitions:
            for index in row.partitions:
                mine = (reported.generation_id, member.member_id)
                found[index] = max(found.get(index, mine), mine)
    return {index: member_id for index, (_, member_id) in found.items()}


def _read_assignment(data: bytes) -> list[int]:
    if not data:
        return []
    version = min(_VERSION.unpack_from(data)[0], EMBEDDED_VERSION)
    reported = ConsumerProtocolAssignment.read(version, data, _VERSION.size)[0]
    return [index for row in reported.assigned_partitions for index in row.partitions]
