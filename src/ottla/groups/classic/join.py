"""JoinGroup in a classic group: new members, members that rejoin, and static members with a new id."""

from __future__ import annotations

from ottla.groups.classic.group import EMPTY, PREPARING, STABLE, ClassicGroup
from ottla.groups.classic.handover import is_left_behind
from ottla.groups.classic.member import ClassicMember, Protocols
from ottla.groups.classic.rebalance import (
    Rebalancing,
    joined_response,
    member_trigger,
    refused_join,
)
from ottla.groups.classic.records import empty_group_record, group_record
from ottla.groups.context import ShardContext
from ottla.groups.history import (
    LEADER_REJOINED,
    MEMBER_JOINED,
    MEMBER_REJOINED,
    STATIC_MEMBER_REPLACED,
    SUBSCRIPTION_CHANGED,
)
from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group_request import JoinGroupRequest
from ottla.protocol.messages.join_group_response import JoinGroupResponse
from ottla.protocol.versions import JOIN_GROUP_MEMBER_ID_REQUIRED_SINCE, JOIN_GROUP_SKIP_ASSIGNMENT_SINCE


class Join:
    __slots__ = ("context", "rebalancing")

    def __init__(self, context: ShardContext, rebalancing: Rebalancing) -> None:
        self.context = context
        self.rebalancing = rebalancing

    def refuse(self, request: JoinGroupRequest) -> JoinGroupResponse | None:
        """Errors that do not depend on the group."""
        config = self.context.config
        if not request.group_id:
            return refused_join(request.member_id, ErrorCode.INVALID_GROUP_ID)
        if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
            return refused_join(request.member_id, ErrorCode.INVALID_SESSION_TIMEOUT)
        return None

    def join(self, request: JoinGroupRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        """The group, if there is one, is a classic one."""
        outcome = Outcome()
        protocols = protocols_of(request)
        group = self.context.groups.get(request.group_id)
        if group is None:
            code = ErrorCode.NONE
            if request.member_id:
                code = ErrorCode.UNKNOWN_MEMBER_ID
            elif not request.protocol_type or not protocols:
                code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            if code:
                outcome.reply = refused_join(request.member_id, code)
                return outcome
            self.context.write(outcome, *empty_group_record(request.group_id, now_ms), now_ms)
            group = self.context.groups[request.group_id]
        assert isinstance(group, ClassicGroup)
        if not group.supports(request.protocol_type, protocols):
            outcome.reply = refused_join(request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif not self._has_room(group, request):
            self._turn_away(outcome, group, request.member_id, now_ms)
        elif not request.member_id:
            self._join_newcomer(outcome, group, request, ctx, now_ms)
        elif request.member_id in group.pending_members and request.group_instance_id is None:
            group.pending_members.pop(request.member_id).discard()
            self._add(outcome, group, request.member_id, request, ctx, now_ms)
        else:
            code = group.check_member(request.member_id, request.group_instance_id)
            if code:
                outcome.reply = refused_join(request.member_id, code)
            else:
                self._join_again(outcome, group, request, ctx, now_ms)
        return outcome

    def _has_room(self, group: ClassicGroup, request: JoinGroupRequest) -> bool:
        size_max = self.context.config.max_size
        member_id = request.member_id
        if not member_id and request.group_instance_id is not None:
            member_id = group.static_members.get(request.group_instance_id, "")
        member = group.members.get(member_id)
        if group.state == EMPTY:
            return True
        if group.state == PREPARING:
            # In a group that is larger than allowed, the first members to rejoin stay.
            return (member is not None and member.is_joining) or group.joining_count < size_max
        return member is not None or len(group.members) < size_max

    def _turn_away(self, outcome: Outcome, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        pending = group.pending_members.pop(member_id, None)
        if pending is not None:
            pending.discard()
        member = group.members.get(member_id)
        if member is not None:
            self.rebalancing.drop(outcome, group, member)
        outcome.reply = refused_join("", ErrorCode.GROUP_MAX_SIZE_REACHED)
        self.rebalancing.complete_if_joined(outcome, group, now_ms)

    # New members.

    def _join_newcomer(
        self,
        outcome: Outcome,
        group: ClassicGroup,
        request: JoinGroupRequest,
        ctx: RequestContext,
        now_ms: int,
    ) -> None:
        instance_id = request.group_instance_id
        member_id = f"{ctx.client_id if instance_id is None else instance_id}-{self.context.new_uuid()}"
        if instance_id is not None and instance_id in group.static_members:
            self._replace_static(outcome, group, member_id, request, ctx, now_ms)
        elif instance_id is None and ctx.api_version >= JOIN_GROUP_MEMBER_ID_REQUIRED_SINCE:
            self.rebalancing.await_pending(group, member_id, now_ms + request.session_timeout_ms)
            outcome.reply = refused_join(member_id, ErrorCode.MEMBER_ID_REQUIRED)
        else:
            self._add(outcome, group, member_id, request, ctx, now_ms)

    def _add(
        self,
        outcome: Outcome,
        group: ClassicGroup,
        member_id: str,
        request: JoinGroupRequest,
        ctx: RequestContext,
        now_ms: int,
    ) -> None:
        member = ClassicMember(
            member_id,
            instance_id=request.group_instance_id,
            client_id=ctx.client_id,
            client_host=ctx.client_host,
            rebalance_timeout_ms=rebalance_timeout_ms(request),
            session_timeout_ms=request.session_timeout_ms,
            protocols=protocols_of(request),
        )
        member.is_new = True
        group.add(member, request.protocol_type)
        group.newcomers = True
        self.rebalancing.park_join(outcome, group, member, ctx)
        deadline_ms = now_ms + self.context.config.new_member_join_timeout_ms
        self.rebalancing.session_until(group, member, deadline_ms)
        trigger = member_trigger(MEMBER_JOINED, member, now_ms, request.reason)
        self.rebalancing.prepare(outcome, group, trigger, now_ms)

    # Members that rejoin.

    def _join_again(
        self,
        outcome: Outcome,
        group: ClassicGroup,
        request: JoinGroupRequest,
        ctx: RequestContext,
        now_ms: int,
    ) -> None:
        member = group.members[request.member_id]
        changed = member.protocols != protocols_of(request)
        leads = member.member_id == group.leader_id
        if group.state == PREPARING:
            reads_other = self._update(group, member, request)
            self.rebalancing.park_join(outcome, group, member, ctx)
            if reads_other:
                trigger = member_trigger(SUBSCRIPTION_CHANGED, member, now_ms, request.reason)
                group.history.trigger(trigger)
            self.rebalancing.complete_if_joined(outcome, group, now_ms)
        elif changed or (leads and group.state == STABLE):
            reads_other = self._update(group, member, request)
            what = SUBSCRIPTION_CHANGED if reads_other else LEADER_REJOINED if leads else MEMBER_REJOINED
            self.rebalancing.park_join(outcome, group, member, ctx)
            trigger = member_trigger(what, member, now_ms, request.reason)
            self.rebalancing.prepare(outcome, group, trigger, now_ms)
        else:
            # The response was lost, or the member requests a rebalance without a reason.
            self.rebalancing.extend_session(group, member, now_ms)
            response = joined_response(group, member)
            if group.state == STABLE:
                response.members = []
            outcome.reply = response

    def _update(self, group: ClassicGroup, member: ClassicMember, request: JoinGroupRequest) -> bool:
        """Update the member from the request. True if its subscription changed, as far as that is known.

        Metadata may change without it: members of a cooperative group also put their owned partitions there.
        """
        before = group.topics_of(member)
        group.set_protocols(member, protocols_of(request))
        member.rebalance_timeout_ms = rebalance_timeout_ms(request)
        member.session_timeout_ms = request.session_timeout_ms
        return sorted(group.topics_of(member) or ()) != sorted(before or ())

    # Static members.

    def _replace_static(
        self,
        outcome: Outcome,
        group: ClassicGroup,
        member_id: str,
        request: JoinGroupRequest,
        ctx: RequestContext,
        now_ms: int,
    ) -> None:
        """Handle an instance with a new member id: it was restarted, or the instance id is used twice."""
        assert request.group_instance_id is not None
        old_leader_id = group.leader_id
        member = group.members[group.static_members[request.group_instance_id]]
        self.rebalancing.answer_waiting(outcome, group, member, ErrorCode.FENCED_INSTANCE_ID)
        group.rename(member, member_id)
        member.is_new = False
        member.client_id = ctx.client_id
        member.client_host = ctx.client_host
        hands_over = is_left_behind(group, member)
        reads_other = self._update(group, member, request)
        self.rebalancing.extend_session(group, member, now_ms)
        keeps_protocol = group.state == STABLE and group.select_protocol() == group.protocol_name
        if keeps_protocol and not (reads_other or hands_over):
            self._take_over(outcome, group, member, old_leader_id or "", ctx, now_ms)
            return
        self.rebalancing.park_join(outcome, group, member, ctx)
        what = SUBSCRIPTION_CHANGED if reads_other else STATIC_MEMBER_REPLACED
        self.rebalancing.prepare(outcome, group, member_trigger(what, member, now_ms, request.reason), now_ms)

    def _take_over(
        self,
        outcome: Outcome,
        group: ClassicGroup,
        member: ClassicMember,
        old_leader_id: str,
        ctx: RequestContext,
        now_ms: int,
    ) -> None:
        """SyncGroup returns its previous assignment; the other members are not affected."""
        assignments = {each.member_id: each.assignment for each in group.members.values()}
        self.context.write(outcome, *group_record(group, assignments, now_ms), now_ms)
        response = joined_response(group, member)
        if ctx.api_version >= JOIN_GROUP_SKIP_ASSIGNMENT_SINCE:
            response.skip_assignment = member.member_id == group.leader_id
        else:
            # An older client that is named as leader would assign, so the response has the previous id.
            response.leader = old_leader_id
            response.members = []
        outcome.reply = response


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """Return the protocols in the order of the request; the first of a name counts."""
    named: dict[str, bytes] = {}
    for protocol in request.protocols:
        named.setdefault(protocol.name, bytes(protocol.metadata))
    return tuple(named.items())


def rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    # Version 0 has no rebalance timeout.
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms
