"""The classic protocol of one shard: one method per request."""

from __future__ import annotations

from ottla.groups.classic.group import COMPLETING, EMPTY, PREPARING, ClassicGroup
from ottla.groups.classic.join import Join
from ottla.groups.classic.leave import Leave
from ottla.groups.classic.rebalance import Rebalancing, sync_response
from ottla.groups.classic.records import apply_group
from ottla.groups.context import ShardContext
from ottla.groups.history import GROUP_TOO_LARGE, Trigger
from ottla.machines.outcome import Outcome, RequestContext, Token
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.group_metadata_key import GroupMetadataKey
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.heartbeat_response import HeartbeatResponse
from ottla.protocol.messages.join_group_request import JoinGroupRequest
from ottla.protocol.messages.join_group_response import JoinGroupResponse
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest
from ottla.protocol.messages.sync_group_request import SyncGroupRequest
from ottla.protocol.messages.sync_group_response import SyncGroupResponse
from ottla.protocol.versions import SYNC_GROUP_PROTOCOL_NAME_SINCE


class ClassicProtocol:
    """The group of a request, if it exists, is a classic group: the shard checks that first."""

    __slots__ = ("_join", "_leave", "context", "rebalancing")

    def __init__(self, context: ShardContext) -> None:
        self.context = context
        self.rebalancing = Rebalancing(context)
        self._join = Join(context, self.rebalancing)
        self._leave = Leave(context, self.rebalancing)
        context.appliers[GroupMetadataKey.API_KEY] = self._apply_group

    def _apply_group(self, key: Message, value: Message | None, timestamp_ms: int) -> None:
        apply_group(self.context, key, value, timestamp_ms)

    def _group(self, group_id: str) -> ClassicGroup | None:
        group = self.context.groups.get(group_id)
        assert group is None or isinstance(group, ClassicGroup)
        return group

    def refuse_join(self, request: JoinGroupRequest) -> JoinGroupResponse | None:
        return self._join.refuse(request)

    def join(self, request: JoinGroupRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        return self._join.join(request, ctx, now_ms)

    def leave(self, request: LeaveGroupRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        return self._leave.leave(request, ctx, now_ms)

    def sync(self, request: SyncGroupRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        group = self._group(request.group_id)
        code = self._check_sync(group, request)
        if code:
            return Outcome(SyncGroupResponse(error_code=code))
        assert group is not None
        member = group.members[request.member_id]
        if group.state == PREPARING:
            return Outcome(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        group.pending_sync.pop(request.member_id, None)
        if not group.pending_sync and group.sync_timer is not None:
            group.sync_timer.clear()
        if group.state != COMPLETING:
            # The response has the member's partitions: its session must not end right after it.
            self.rebalancing.extend_session(group, member, now_ms)
            return Outcome(sync_response(ErrorCode.NONE, group, member))
        outcome = Outcome()
        self.rebalancing.park_sync(outcome, member, ctx)
        if request.member_id == group.leader_id:
            # Every member gets an assignment, possibly an empty one; unknown member ids get none.
            given = {each.member_id: bytes(each.assignment) for each in request.assignments}
            self.rebalancing.become_stable(outcome, group, given, now_ms)
        return outcome

    def _check_sync(self, group: ClassicGroup | None, request: SyncGroupRequest) -> ErrorCode:
        if group is None or group.state == EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        code = group.check_member(request.member_id, request.group_instance_id)
        if code:
            return code
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if request.protocol_type is not None and request.protocol_type != group.protocol:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.protocol_name is not None and request.protocol_name != group.protocol_name:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.NONE

    def refuse_sync(self, request: SyncGroupRequest, ctx: RequestContext) -> SyncGroupResponse | None:
        """Errors that do not depend on the group."""
        if not request.group_id:
            return SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        if ctx.api_version >= SYNC_GROUP_PROTOCOL_NAME_SINCE and (
            request.protocol_type is None or request.protocol_name is None
        ):
            return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return None

    def heartbeat(self, request: HeartbeatRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        group = self._group(request.group_id)
        if group is None:
            return Outcome(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        code = group.check_member(request.member_id, request.group_instance_id)
        if code:
            return Outcome(HeartbeatResponse(error_code=code))
        if request.generation_id != group.generation:
            return Outcome(HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
        self.rebalancing.extend_session(group, group.members[request.member_id], now_ms)
        if group.state == PREPARING:
            return Outcome(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        return Outcome(HeartbeatResponse())

    def keep_session(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        """Extend the session: a commit counts as a heartbeat."""
        member = group.members.get(member_id)
        if member is not None:
            self.rebalancing.extend_session(group, member, now_ms)

    def loaded(self, outcome: Outcome, now_ms: int) -> None:
        for group in [*self.context.groups.values()]:
            if not isinstance(group, ClassicGroup) or not group.members:
                continue
            for member in group.members.values():
                self.rebalancing.extend_session(group, member, now_ms)
            if len(group.members) > self.context.config.max_size:
                self.rebalancing.prepare(outcome, group, Trigger(GROUP_TOO_LARGE, now_ms), now_ms)

    def abandon(self, code: ErrorCode) -> list[tuple[Token, Message]]:
        outcome = Outcome()
        for group in self.context.groups.values():
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    self.rebalancing.answer_waiting(outcome, group, member, code)
        return outcome.replies
