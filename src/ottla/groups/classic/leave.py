"""LeaveGroup in a classic group: a member leaves, or an admin removes members."""

from __future__ import annotations

from ottla.groups.classic.group import PREPARING, ClassicGroup
from ottla.groups.classic.rebalance import Rebalancing, member_trigger
from ottla.groups.context import ShardContext
from ottla.groups.history import MEMBER_LEFT, MEMBER_REMOVED, Trigger
from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from ottla.protocol.versions import LEAVE_GROUP_MEMBERS_SINCE


class Leave:
    __slots__ = ("context", "rebalancing")

    def __init__(self, context: ShardContext, rebalancing: Rebalancing) -> None:
        self.context = context
        self.rebalancing = rebalancing

    def leave(self, request: LeaveGroupRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        group = self.context.groups.get(request.group_id)
        assert group is None or isinstance(group, ClassicGroup)
        outcome = Outcome()
        triggers: list[Trigger] = []
        answers = [
            self._leave_one(outcome, group, member, triggers, now_ms) for member in leaving(request, ctx)
        ]
        outcome.reply = leave_response(answers, ctx)
        if group is not None:
            for trigger in triggers[:-1]:
                group.history.trigger(trigger)
            if triggers:
                self.rebalancing.prepare(outcome, group, triggers[-1], now_ms)
            elif group.state == PREPARING:
                # The other members may have been waiting for a member that never joined.
                self.rebalancing.complete_if_joined(outcome, group, now_ms)
        return outcome

    def _leave_one(
        self,
        outcome: Outcome,
        group: ClassicGroup | None,
        identity: MemberIdentity,
        triggers: list[Trigger],
        now_ms: int,
    ) -> MemberResponse:
        code = ErrorCode.UNKNOWN_MEMBER_ID
        if group is not None:
            pending = group.pending_members.pop(identity.member_id, None)
            if pending is not None:
                pending.discard()
                code = ErrorCode.NONE
            else:
                code = self._remove(outcome, group, identity, triggers, now_ms)
        return MemberResponse(
            member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code
        )

    def _remove(
        self,
        outcome: Outcome,
        group: ClassicGroup,
        identity: MemberIdentity,
        triggers: list[Trigger],
        now_ms: int,
    ) -> ErrorCode:
        member_id = identity.member_id
        what = MEMBER_LEFT
        if not member_id and identity.group_instance_id is not None:
            # An admin identifies static members by instance id alone.
            what = MEMBER_REMOVED
            member_id = group.static_members.get(identity.group_instance_id, "")
        code = group.check_member(member_id, identity.group_instance_id)
        if not code:
            member = group.members[member_id]
            triggers.append(member_trigger(what, member, now_ms, identity.reason))
            self.rebalancing.drop(outcome, group, member)
        return code


def leaving(request: LeaveGroupRequest, ctx: RequestContext) -> list[MemberIdentity]:
    if ctx.api_version < LEAVE_GROUP_MEMBERS_SINCE:
        return [MemberIdentity(member_id=request.member_id)]
    return request.members


def leave_response(answers: list[MemberResponse], ctx: RequestContext) -> LeaveGroupResponse:
    if ctx.api_version < LEAVE_GROUP_MEMBERS_SINCE:
        return LeaveGroupResponse(error_code=answers[0].error_code)
    return LeaveGroupResponse(members=answers)
