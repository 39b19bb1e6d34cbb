"""Members of a consumer group that use the classic protocol: the coordinator assigns to them as well.

JoinGroup is answered at once, with the member's epoch as generation and no list of members: the coordinator
has assigned, and SyncGroup returns the member's assignment. If the member must revoke partitions or can get
more, its heartbeats are answered with REBALANCE_IN_PROGRESS: it rejoins and reports what it owns.
"""

from __future__ import annotations

from ottla.groups.classic.join import protocols_of, rebalance_timeout_ms
from ottla.groups.classic.leave import leave_response, leaving
from ottla.groups.classic.protocol import ClassicProtocol
from ottla.groups.classic.rebalance import refused_join
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.heartbeat import ID_LENGTH_MAX, refuse_group_full
from ottla.groups.consumer.member import UNRELEASED_PARTITIONS, UNREVOKED_PARTITIONS, Member
from ottla.groups.consumer.membership import Membership, trigger_of
from ottla.groups.consumer.migration import Migration, shared_protocols
from ottla.groups.consumer.records import member_value
from ottla.groups.consumer.refused import Refused
from ottla.groups.embedded_protocol import (
    PROTOCOL_TYPE,
    by_topic_id,
    read_subscription,
    read_version,
    write_assignment,
)
from ottla.groups.history import (
    MEMBER_JOINED,
    MEMBER_LEFT,
    MEMBER_REMOVED,
    SUBSCRIPTION_CHANGED,
    Trigger,
)
from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.errors import DecodeError, ErrorCode
from ottla.protocol.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from ottla.protocol.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
)
from ottla.protocol.messages.consumer_group_member_metadata_value import (
    ClassicProtocol as ClassicProtocolEntry,
)
from ottla.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.heartbeat_response import HeartbeatResponse
from ottla.protocol.messages.join_group_request import JoinGroupRequest
from ottla.protocol.messages.join_group_response import JoinGroupResponse
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.leave_group_response import MemberResponse
from ottla.protocol.messages.sync_group_request import SyncGroupRequest
from ottla.protocol.messages.sync_group_response import SyncGroupResponse
from ottla.protocol.versions import JOIN_GROUP_MEMBER_ID_REQUIRED_SINCE


class ClassicMembers:
    __slots__ = ("_classic", "_membership", "_migration")

    def __init__(self, membership: Membership, migration: Migration, classic: ClassicProtocol) -> None:
        self._membership = membership
        self._migration = migration
        self._classic = classic

    # JoinGroup.

    def join(
        self, group: ConsumerGroup, request: JoinGroupRequest, ctx: RequestContext, now_ms: int
    ) -> Outcome:
        if group.is_empty:
            return self._join_as_classic(group, request, ctx, now_ms)
        try:
            return self._join(group, request, ctx, now_ms)
        except Refused as refused:
            return Outcome(refused_join(request.member_id, refused.code))

    def _join_as_classic(
        self, group: ConsumerGroup, request: JoinGroupRequest, ctx: RequestContext, now_ms: int
    ) -> Outcome:
        """No member of the new protocol is left."""
        ended = Outcome()
        self._membership.write(ended, group.tombstones(), now_ms)
        outcome = self._classic.join(request, ctx, now_ms)
        outcome.records[:0] = ended.records
        return outcome

    def _join(
        self, group: ConsumerGroup, request: JoinGroupRequest, ctx: RequestContext, now_ms: int
    ) -> Outcome:
        if len(request.member_id) > ID_LENGTH_MAX:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, "the member id was not assigned by this group")
        subscription = _check_protocols(group, request)
        context = self._membership.context
        config = context.config
        refuse_group_full(group, request.member_id, request.group_instance_id, config.consumer_max_size)
        outcome = Outcome()
        member_id = request.member_id
        if not member_id:
            member_id = f"{request.group_instance_id or ctx.client_id}-{context.new_uuid()}"
            if request.group_instance_id is None and ctx.api_version >= JOIN_GROUP_MEMBER_ID_REQUIRED_SINCE:
                outcome.reply = refused_join(member_id, ErrorCode.MEMBER_ID_REQUIRED)
                return outcome
        old = self._replaced_member(outcome, group, member_id, request, now_ms)
        member, trigger = self._update(outcome, group, member_id, request, subscription, ctx, now_ms)
        self._membership.refresh(outcome, group, trigger, now_ms)
        self._membership.assign_if_due(outcome, group, now_ms)
        named = ((each.topic, each.partitions) for each in subscription.owned_partitions)
        owned = by_topic_id(named, context.topics)
        self._membership.reconcile(outcome, group, member, owned, now_ms)
        outcome.reply = JoinGroupResponse(
            member_id=member_id,
            generation_id=member.epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=request.protocols[0].name,
        )
        if old is not None and self._migration.may_turn_classic(group, []):
            # The last member of the new protocol rejoins with the classic one: it joins the classic group.
            made = self._migration.turn_classic_as_is(outcome, group, now_ms)
            outcome.reply.generation_id = made.generation
            outcome.reply.protocol_name = made.protocol_name
            return outcome
        self._membership.keep_alive(group, member, now_ms)
        self._membership.expect_progress(group, member, now_ms)
        return outcome

    def _replaced_member(
        self, outcome: Outcome, group: ConsumerGroup, member_id: str, request: JoinGroupRequest, now_ms: int
    ) -> Member | None:
        """Return the member that a static member with a new id replaces, if any."""
        if request.group_instance_id is None:
            return None
        old = group.static_member(request.group_instance_id)
        if request.member_id:
            if old is None:
                raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, "no member has this instance id")
            if old.member_id != request.member_id:
                raise Refused(ErrorCode.FENCED_INSTANCE_ID, "the instance id belongs to another member")
            return None
        if old is not None:
            self._membership.replace_static(outcome, group, old, member_id, now_ms)
        return old

    def _update(
        self,
        outcome: Outcome,
        group: ConsumerGroup,
        member_id: str,
        request: JoinGroupRequest,
        subscription: ConsumerProtocolSubscription,
        ctx: RequestContext,
        now_ms: int,
    ) -> tuple[Member, Trigger | None]:
        member = group.members.get(member_id)
        topics = tuple(dict.fromkeys(subscription.topics))
        rack_id = subscription.rack_id or None
        what = ""
        if member is None:
            what = MEMBER_JOINED
        elif member.subscribed_topics != topics or member.subscribed_regex or member.rack_id != rack_id:
            what = SUBSCRIPTION_CHANGED
        value = member_value(
            member,
            instance_id=request.group_instance_id,
            rack_id=rack_id,
            client_id=ctx.client_id,
            client_host=ctx.client_host,
            subscribed_topics=topics,
            subscribed_regex="",
            rebalance_timeout_ms=rebalance_timeout_ms(request),
            server_assignor=None if member is None else member.server_assignor,
            classic=ClassicMemberMetadata(
                session_timeout_ms=request.session_timeout_ms,
                supported_protocols=[
                    ClassicProtocolEntry(name=name, metadata=metadata)
                    for name, metadata in protocols_of(request)
                ],
            ),
        )
        if value is not None:
            key = ConsumerGroupMemberMetadataKey(group_id=group.group_id, member_id=member_id)
            self._membership.context.write(outcome, key, value, now_ms)
            self._membership.drop_unused_regexes(outcome, group, now_ms)
        member = group.members[member_id]
        return member, trigger_of(what, member, now_ms, request.reason or "") if what else None

    # SyncGroup and Heartbeat.

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest, now_ms: int) -> Outcome:
        try:
            member = _classic_member(group, request.member_id, request.group_instance_id)
        except Refused as refused:
            return Outcome(SyncGroupResponse(error_code=refused.code))
        classic = member.classic
        assert classic is not None
        first = classic.supported_protocols[0]
        if request.generation_id != member.epoch:
            return Outcome(SyncGroupResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
        if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (
            None,
            first.name,
        ):
            return Outcome(SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        # A member that has to revoke partitions rejoined for that: it must sync before it rejoins.
        if member.epoch < group.assignment_epoch and member.state != UNREVOKED_PARTITIONS:
            self._expect_join(group, member, now_ms)
            return Outcome(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        if member.progress is not None:
            member.progress.clear()
        self._membership.keep_alive(group, member, now_ms)
        topics = self._membership.context.topics
        return Outcome(
            SyncGroupResponse(
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignment=write_assignment(member.assigned, read_version(first.metadata), topics),
            )
        )

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest, now_ms: int) -> Outcome:
        try:
            member = _classic_member(group, request.member_id, request.group_instance_id)
        except Refused as refused:
            return Outcome(HeartbeatResponse(error_code=refused.code))
        if request.generation_id != member.epoch:
            return Outcome(HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
        outcome = Outcome(HeartbeatResponse())
        self._membership.keep_alive(group, member, now_ms)
        if group.topics_epoch != self._membership.context.topics.epoch:
            self._membership.refresh(outcome, group, None, now_ms)
            self._membership.assign_if_due(outcome, group, now_ms)
        if (
            member.epoch < group.assignment_epoch
            or member.state == UNREVOKED_PARTITIONS
            or (member.state == UNRELEASED_PARTITIONS and _is_all_released(group, member))
        ):
            self._expect_join(group, member, now_ms)
            outcome.reply = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        return outcome

    def _expect_join(self, group: ConsumerGroup, member: Member, now_ms: int) -> None:
        if member.progress is None or not member.progress.is_set:
            self._membership.expect_progress(group, member, now_ms)

    # LeaveGroup.

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, ctx: RequestContext, now_ms: int
    ) -> Outcome:
        outcome = Outcome()
        answers: list[MemberResponse] = []
        gone: dict[str, Member] = {}
        triggers: list[Trigger] = []
        for identity in leaving(request, ctx):
            code = ErrorCode.NONE
            try:
                member = _leaving_member(group, identity)
                if member.member_id in gone:
                    raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, "the member has already left")
                gone[member.member_id] = member
                what = MEMBER_LEFT if identity.member_id else MEMBER_REMOVED
                triggers.append(trigger_of(what, member, now_ms, identity.reason or ""))
            except Refused as refused:
                code = refused.code
            answers.append(
                MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=code,
                )
            )
        outcome.reply = leave_response(answers, ctx)
        if gone:
            for trigger in triggers[:-1]:
                group.history.trigger(trigger)
            self._membership.remove(outcome, group, [*gone.values()], triggers[-1], now_ms)
        return outcome


def _check_protocols(group: ConsumerGroup, request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    """All members of the classic protocol must share a protocol, in case the group is downgraded."""
    names = [protocol.name for protocol in request.protocols]
    others = [
        member
        for member in group.members.values()
        if member.uses_classic_protocol and member.member_id != request.member_id
    ]
    shared = shared_protocols(others) if others else names
    if request.protocol_type != PROTOCOL_TYPE or not any(name in shared for name in names):
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "no protocol is common to all members")
    try:
        return read_subscription(bytes(request.protocols[0].metadata))
    except DecodeError as error:
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"not a subscription: {error}") from error


def _known_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
    if instance_id is None:
        member = group.members.get(member_id)
    else:
        member = group.static_member(instance_id)
        if member is not None and member.member_id != member_id:
            raise Refused(ErrorCode.FENCED_INSTANCE_ID, "the instance id belongs to another member")
    if member is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, "the group has no such member")
    return member


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
    member = _known_member(group, member_id, instance_id)
    if not member.uses_classic_protocol:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, "the member does not use the classic protocol")
    return member


def _leaving_member(group: ConsumerGroup, identity: MemberIdentity) -> Member:
    if identity.member_id or identity.group_instance_id is None:
        return _classic_member(group, identity.member_id, identity.group_instance_id)
    # An admin client names static members by instance id alone, and may remove those of either protocol.
    member = group.static_member(identity.group_instance_id)
    if member is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, "no member has this instance id")
    return member


def _is_all_released(group: ConsumerGroup, member: Member) -> bool:
    """Whether no other member owns a partition of the member's target."""
    for topic_id, partitions in group.targets.get(member.member_id, {}).items():
        for partition in partitions:
            if group.owner(topic_id, partition) not in (None, member.member_id):
                return False
    return True
