"""ConsumerGroupHeartbeat: the request by which members join, stay in, reconcile with and leave a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.member import (
    JOINING,
    LEAVING,
    LEAVING_STATIC,
    STABLE,
    UNKNOWN_STATE,
    UNRELEASED_PARTITIONS,
    Member,
    is_same,
    is_subset,
)
from ottla.groups.consumer.membership import Membership, trigger_of
from ottla.groups.consumer.pattern_syntax import PatternError
from ottla.groups.consumer.records import member_value
from ottla.groups.consumer.refused import Refused
from ottla.groups.consumer.settings import (
    WAITING_HEARTBEAT_INTERVAL_MS,
    heartbeat_interval_ms,
    session_timeout_ms,
)
from ottla.groups.group import CLASSIC
from ottla.groups.history import MEMBER_JOINED, MEMBER_LEFT, SUBSCRIPTION_CHANGED, Trigger
from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.protocol.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from ottla.protocol.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from ottla.protocol.versions import CONSUMER_GROUP_HEARTBEAT_CLIENT_MEMBER_ID_SINCE

if TYPE_CHECKING:
    from ottla.groups.consumer.migration import Migration


# An id of this length fits into the key of a record in any encoding.
ID_LENGTH_MAX = 8000

Owned = dict[bytes, frozenset[int]]


def refuse_group_full(group: ConsumerGroup, member_id: str, instance_id: str | None, max_size: int) -> None:
    if member_id in group.members or (instance_id is not None and instance_id in group.static_ids):
        return
    if len(group.members) >= max_size:
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group already has {max_size} members")


class Heartbeats:
    __slots__ = ("_membership", "_migration")

    def __init__(self, membership: Membership, migration: Migration) -> None:
        self._membership = membership
        self._migration = migration

    def decide(self, request: ConsumerGroupHeartbeatRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        group = self._membership.context.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            member = group.members.get(request.member_id)
            if member is not None and self._is_steady(group, member, request):
                return self._steady(group, member, now_ms)
        try:
            self._check(request, ctx)
            if not request.member_id:
                request.member_id = self._membership.context.new_uuid()
            if request.member_epoch < 0:
                return self._leave(request, now_ms)
            return self._decide(request, ctx, now_ms)
        except Refused as refused:
            return Outcome(
                ConsumerGroupHeartbeatResponse(error_code=refused.code, error_message=str(refused))
            )

    # The common case: a member that has reconciled reports that it is alive.

    def _is_steady(
        self, group: ConsumerGroup, member: Member, request: ConsumerGroupHeartbeatRequest
    ) -> bool:
        return (
            request.member_epoch == member.epoch == group.assignment_epoch == group.epoch
            and member.state == STABLE
            and group.topics_epoch == self._membership.context.topics.epoch
            and request.topic_partitions is None
            and request.subscribed_topic_names is None
            and request.subscribed_topic_regex is None
            and request.rebalance_timeout_ms == -1
            and request.server_assignor is None
            and (request.instance_id is None or request.instance_id == member.instance_id)
            and (request.rack_id is None or request.rack_id == member.rack_id)
            and member.classic is None
            and member.session is not None
        )

    def _steady(self, group: ConsumerGroup, member: Member, now_ms: int) -> Outcome:
        config = self._membership.context.config
        assert member.session is not None
        # Move the deadline without arming the timer: see Timer. A shorter timeout applies when it next fires.
        member.session.deadline_ms = now_ms + session_timeout_ms(config, group.group_id)
        return Outcome(
            ConsumerGroupHeartbeatResponse(
                member_id=member.member_id,
                member_epoch=member.epoch,
                heartbeat_interval_ms=heartbeat_interval_ms(config, group.group_id),
            )
        )

    # Validation.

    def _check(self, request: ConsumerGroupHeartbeatRequest, ctx: RequestContext) -> None:
        if not request.group_id.strip():
            raise Refused(ErrorCode.INVALID_REQUEST, "the group id is empty")
        if max(len(request.group_id), len(request.member_id)) > ID_LENGTH_MAX:
            raise Refused(ErrorCode.INVALID_REQUEST, f"an id is longer than {ID_LENGTH_MAX} characters")
        for name, value in (("instance id", request.instance_id), ("rack id", request.rack_id)):
            if value is not None and not value.strip():
                raise Refused(ErrorCode.INVALID_REQUEST, f"the {name} is empty")
        epoch = request.member_epoch
        if not request.member_id and (
            epoch != JOINING or ctx.api_version >= CONSUMER_GROUP_HEARTBEAT_CLIENT_MEMBER_ID_SINCE
        ):
            raise Refused(ErrorCode.INVALID_REQUEST, "the member id is empty")
        if epoch == JOINING:
            _check_joining(request)
        elif epoch == LEAVING_STATIC:
            if request.instance_id is None:
                raise Refused(ErrorCode.INVALID_REQUEST, "only a static member can leave temporarily")
        elif epoch < LEAVING:
            raise Refused(ErrorCode.INVALID_REQUEST, f"the member epoch {epoch} is invalid")
        assignors = self._membership.assignors
        if request.server_assignor is not None and request.server_assignor not in assignors:
            raise Refused(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"assignor {request.server_assignor!r} is not one of {', '.join(assignors)}",
            )
        if request.subscribed_topic_regex:
            try:
                self._membership.patterns.resolve(request.subscribed_topic_regex)
            except PatternError as error:
                raise Refused(
                    ErrorCode.INVALID_REGULAR_EXPRESSION,
                    f"pattern {request.subscribed_topic_regex!r}: {error}",
                ) from error

    def _find(self, request: ConsumerGroupHeartbeatRequest) -> tuple[ConsumerGroup, Member]:
        """Return the member that sent the request."""
        group = self._membership.context.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            # Also if the group is unknown: clients then rejoin, which creates the group.
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"no member {request.member_id!r} in this group")
        if request.instance_id is not None:
            member = group.static_member(request.instance_id)
            if member is not None and member.member_id != request.member_id:
                raise Refused(
                    ErrorCode.FENCED_INSTANCE_ID,
                    f"instance {request.instance_id!r} is now member {member.member_id!r}",
                )
        else:
            member = group.members.get(request.member_id)
        if member is None:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"no member {request.member_id!r} in this group")
        return group, member

    # Leaving.

    def _leave(self, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> Outcome:
        group, member = self._find(request)
        outcome = Outcome()
        outcome.reply = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch
        )
        if request.member_epoch == LEAVING_STATIC:
            self._membership.leave_for_restart(outcome, group, member, now_ms)
        else:
            trigger = trigger_of(MEMBER_LEFT, member, now_ms)
            self._membership.remove(outcome, group, [member], trigger, now_ms)
        return outcome

    # Everything else.

    def _decide(self, request: ConsumerGroupHeartbeatRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        owned = _owned(request)
        outcome = Outcome()
        if request.member_epoch == JOINING:
            member = self._join(outcome, request, now_ms)
        else:
            _, member = self._find(request)
            _check_epoch(member, request.member_epoch, owned)
        if member is not None and member.state == UNKNOWN_STATE and (owned is None or owned):
            raise Refused(
                ErrorCode.FENCED_MEMBER_EPOCH, "the state of the member is unknown to this broker version"
            )
        had = None if member is None else member.assigned

        group, member, trigger = self._update(outcome, request, member, ctx, now_ms)
        self._membership.refresh(outcome, group, trigger, now_ms)
        self._membership.assign_if_due(outcome, group, now_ms)
        self._membership.reconcile(outcome, group, member, owned, now_ms)
        self._membership.keep_alive(group, member, now_ms)

        # The request is full, the assignment changed, or the member reports other partitions.
        with_assignment = (
            request.member_epoch == JOINING
            or member.assigned != had
            or (owned is not None and not is_same(owned, member.assigned))
            or _is_full(request)
        )
        outcome.reply = self._reply(group, member, with_assignment)
        return outcome

    def _join(self, outcome: Outcome, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> Member | None:
        """Create or upgrade the group; return the existing member, if any. Refuses before a write."""
        context = self._membership.context
        group = context.groups.get(request.group_id)
        if group is not None and group.TYPE == CLASSIC:
            turned = self._migration.upgrade(outcome, group, request.instance_id, now_ms)
            if turned is not None:
                for member in turned.members.values():
                    self._membership.keep_alive(turned, member, now_ms)
            group = turned
        if group is None:
            return None
        if not isinstance(group, ConsumerGroup):
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"the group is of type {group.TYPE}")
        refuse_group_full(group, request.member_id, request.instance_id, context.config.consumer_max_size)
        if request.instance_id is not None:
            old = group.static_member(request.instance_id)
            if old is not None and old.member_id != request.member_id:
                if not old.has_left_for_restart and not old.uses_classic_protocol:
                    raise Refused(
                        ErrorCode.UNRELEASED_INSTANCE_ID,
                        f"instance {request.instance_id!r} is member {old.member_id!r}, which has not left",
                    )
                self._membership.replace_static(outcome, group, old, request.member_id, now_ms)
        return group.members.get(request.member_id)

    def _update(
        self,
        outcome: Outcome,
        request: ConsumerGroupHeartbeatRequest,
        member: Member | None,
        ctx: RequestContext,
        now_ms: int,
    ) -> tuple[ConsumerGroup, Member, Trigger | None]:
        """Write the member's metadata if it changed; report a reason for a new epoch."""
        context = self._membership.context
        value = _updated_metadata(request, member, ctx)
        what = MEMBER_JOINED if member is None else ""
        old_regex = "" if member is None else member.subscribed_regex
        if value is not None:
            if member is not None and _affects_assignment(member, value):
                what = SUBSCRIPTION_CHANGED
            key = ConsumerGroupMemberMetadataKey(group_id=request.group_id, member_id=request.member_id)
            context.write(outcome, key, value, now_ms)
        group = context.groups[request.group_id]
        assert isinstance(group, ConsumerGroup)
        member = group.members[request.member_id]
        if value is not None and member.subscribed_regex:
            self._membership.resolve_regex(outcome, group, member.subscribed_regex, now_ms)
        if old_regex and old_regex != member.subscribed_regex:
            self._membership.drop_unused_regexes(outcome, group, now_ms)
        return group, member, trigger_of(what, member, now_ms) if what else None

    def _reply(
        self, group: ConsumerGroup, member: Member, with_assignment: bool
    ) -> ConsumerGroupHeartbeatResponse:
        interval_ms = heartbeat_interval_ms(self._membership.context.config, group.group_id)
        if member.state == UNRELEASED_PARTITIONS or group.epoch > group.assignment_epoch:
            interval_ms = min(interval_ms, WAITING_HEARTBEAT_INTERVAL_MS)
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=interval_ms,
            assignment=_assignment(member) if with_assignment else None,
        )


def _check_joining(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise Refused(ErrorCode.INVALID_REQUEST, "a joining member must set its rebalance timeout")
    if request.topic_partitions is None or request.topic_partitions:
        raise Refused(ErrorCode.INVALID_REQUEST, "a joining member must own no partitions")
    if request.subscribed_topic_names is None and not request.subscribed_topic_regex:
        raise Refused(ErrorCode.INVALID_REQUEST, "a joining member must set its topics or a pattern")


def _check_epoch(member: Member, epoch: int, owned: Owned | None) -> None:
    if epoch == member.epoch:
        return
    # The previous epoch is accepted: the response with the new one may have been lost.
    is_one_behind = epoch == member.previous_epoch and epoch < member.epoch
    if is_one_behind and owned is not None and is_subset(owned, member.assigned):
        return
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"the member's epoch is {member.epoch}, not {epoch}: it must release its partitions and rejoin",
    )


def _owned(request: ConsumerGroupHeartbeatRequest) -> Owned | None:
    if request.topic_partitions is None:
        return None
    owned: Owned = {}
    for topic in request.topic_partitions:
        owned[topic.topic_id] = owned.get(topic.topic_id, frozenset()) | frozenset(topic.partitions)
    return owned


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the request is full. Members send one after an error: they may have missed a response."""
    return (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def _updated_metadata(
    request: ConsumerGroupHeartbeatRequest, member: Member | None, ctx: RequestContext
) -> ConsumerGroupMemberMetadataValue | None:
    """Return the member's metadata after this request; null fields stay unchanged."""
    known = member if member is not None else Member(request.member_id)
    names = request.subscribed_topic_names
    regex = request.subscribed_topic_regex
    return member_value(
        member,
        instance_id=known.instance_id if request.instance_id is None else request.instance_id,
        rack_id=known.rack_id if request.rack_id is None else request.rack_id,
        client_id=ctx.client_id,
        client_host=ctx.client_host,
        subscribed_topics=known.subscribed_topics if names is None else tuple(dict.fromkeys(names)),
        subscribed_regex=known.subscribed_regex if regex is None else regex,
        rebalance_timeout_ms=(
            known.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        server_assignor=known.server_assignor if request.server_assignor is None else request.server_assignor,
        classic=None,
    )


def _affects_assignment(member: Member, value: ConsumerGroupMemberMetadataValue) -> bool:
    """Whether the change affects the assignment."""
    return (
        member.subscribed_topics != tuple(value.subscribed_topic_names)
        or member.subscribed_regex != (value.subscribed_topic_regex or "")
        or member.server_assignor != value.server_assignor
        or member.rack_id != value.rack_id
    )


def _assignment(member: Member) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(member.assigned[topic_id]))
            for topic_id in sorted(member.assigned)
        ]
    )
