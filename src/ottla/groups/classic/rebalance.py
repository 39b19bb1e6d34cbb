"""Rebalances of a classic group: the transitions that requests and timers trigger."""

from __future__ import annotations

from functools import partial

from ottla.groups.classic.group import COMPLETING, EMPTY, PREPARING, STABLE, ClassicGroup
from ottla.groups.classic.member import ClassicMember
from ottla.groups.classic.records import group_record
from ottla.groups.context import ShardContext
from ottla.groups.history import REBALANCE_TIMED_OUT, SESSION_TIMED_OUT, SYNC_TIMED_OUT, Trigger
from ottla.machines.outcome import Outcome, RequestContext
from ottla.machines.timers import Timer
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.messages.sync_group_response import SyncGroupResponse

# The limit of member ids that were returned and not used; beyond it the oldest are dropped.
PENDING_MEMBERS_MAX = 10_000
JOIN_WAIT_MS_MIN = 1000


class Rebalancing:
    """The transitions of all classic groups of a shard."""

    __slots__ = ("context",)

    def __init__(self, context: ShardContext) -> None:
        self.context = context

    # The start of a rebalance.

    def prepare(self, outcome: Outcome, group: ClassicGroup, trigger: Trigger, now_ms: int) -> None:
        """Start a rebalance; if members are joining already, check whether all have joined."""
        group.history.trigger(trigger)
        if group.state == PREPARING:
            self.complete_if_joined(outcome, group, now_ms)
            return
        if group.state == COMPLETING:
            self._break_off_sync(outcome, group, now_ms)
        group.pending_sync.clear()
        if group.sync_timer is not None:
            group.sync_timer.clear()
        group.is_initial = group.state == EMPTY
        group.state = PREPARING
        group.state_since_ms = now_ms
        if not group.is_initial:
            if group.has_all_joined:
                self.complete(outcome, group, now_ms)
            else:
                self._await_joins(group, now_ms + group.rebalance_timeout_ms)
            return
        delay_ms = self.context.config.initial_rebalance_delay_ms
        group.newcomers = False
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        if delay_ms:
            self._await_joins(group, now_ms + delay_ms)
        else:
            self.complete(outcome, group, now_ms)

    def complete_if_joined(self, outcome: Outcome, group: ClassicGroup, now_ms: int) -> None:
        """The first rebalance of a group waits for its full delay: more members may join."""
        if group.state == PREPARING and not group.is_initial and group.has_all_joined:
            self.complete(outcome, group, now_ms)

    def _await_joins(self, group: ClassicGroup, deadline_ms: int) -> None:
        if group.join_timer is None:
            group.join_timer = Timer(partial(self._join_time_is_up, group))
        self.context.timers.arm(group.join_timer, deadline_ms)

    def _join_time_is_up(self, group: ClassicGroup, outcome: Outcome, now_ms: int) -> None:
        assert group.state == PREPARING, group.state
        if group.is_initial and group.newcomers and group.initial_remaining_ms:
            delay_ms = min(self.context.config.initial_rebalance_delay_ms, group.initial_remaining_ms)
            group.newcomers = False
            group.initial_remaining_ms -= delay_ms
            self._await_joins(group, now_ms + delay_ms)
        else:
            self.complete(outcome, group, now_ms)

    def _break_off_sync(self, outcome: Outcome, group: ClassicGroup, now_ms: int) -> None:
        for member in group.members.values():
            member.assignment = b""
            if member.is_syncing:
                self.answer_sync(outcome, member, ErrorCode.REBALANCE_IN_PROGRESS)
                self.extend_session(group, member, now_ms)

    # A new generation.

    def complete(self, outcome: Outcome, group: ClassicGroup, now_ms: int) -> None:
        """Begin the next generation with the members that have joined, and all static members."""
        if group.join_timer is not None:
            group.join_timer.clear()
        for member in [*group.members.values()]:
            if not member.is_joining and member.instance_id is None:
                group.history.trigger(member_trigger(REBALANCE_TIMED_OUT, member, now_ms))
                group.remove(member)
        if not group.members:
            self._become_empty(outcome, group, now_ms)
        elif not group.elect_leader():
            # Only static members are left, and none has rejoined. Their rebalance timeout may be 0: the
            # broker must not loop on it.
            self._await_joins(group, now_ms + max(group.rebalance_timeout_ms, JOIN_WAIT_MS_MIN))
        else:
            self._begin_generation(outcome, group, now_ms)

    def _become_empty(self, outcome: Outcome, group: ClassicGroup, now_ms: int) -> None:
        group.generation += 1
        group.protocol_name = None
        self.context.write(outcome, *group_record(group, {}, now_ms), now_ms)
        group.history.end(now_ms, group.generation, 0)

    def _begin_generation(self, outcome: Outcome, group: ClassicGroup, now_ms: int) -> None:
        group.generation += 1
        group.protocol_name = group.select_protocol()
        group.find_subscribed()
        group.state = COMPLETING
        group.state_since_ms = now_ms
        group.is_initial = False
        for member in group.members.values():
            if member.is_joining:
                self.answer_join(outcome, group, member, joined_response(group, member))
            member.is_new = False
            self.extend_session(group, member, now_ms)
            group.pending_sync[member.member_id] = None
        if group.sync_timer is None:
            group.sync_timer = Timer(partial(self._sync_time_is_up, group))
        self.context.timers.arm(group.sync_timer, now_ms + group.rebalance_timeout_ms)

    def _sync_time_is_up(self, group: ClassicGroup, outcome: Outcome, now_ms: int) -> None:
        assert group.state in (COMPLETING, STABLE), group.state
        late = [group.members[member_id] for member_id in group.pending_sync]
        if not late:
            return
        triggers = [member_trigger(SYNC_TIMED_OUT, member, now_ms) for member in late]
        for member in late:
            self.drop(outcome, group, member)
        for trigger in triggers[:-1]:
            group.history.trigger(trigger)
        self.prepare(outcome, group, triggers[-1], now_ms)

    def become_stable(
        self, outcome: Outcome, group: ClassicGroup, assignments: dict[str, bytes], now_ms: int
    ) -> None:
        """Store the leader's assignment and answer the waiting SyncGroup requests."""
        assert group.state == COMPLETING, group.state
        self.context.write(outcome, *group_record(group, assignments, now_ms), now_ms)
        for member in group.members.values():
            if member.is_syncing:
                self.answer_sync(outcome, member, ErrorCode.NONE, group)
                self.extend_session(group, member, now_ms)
        group.history.end(now_ms, group.generation, len(group.members))

    # Members.

    def extend_session(self, group: ClassicGroup, member: ClassicMember, now_ms: int) -> None:
        self.session_until(group, member, now_ms + member.session_timeout_ms)

    def session_until(self, group: ClassicGroup, member: ClassicMember, deadline_ms: int) -> None:
        session = member.session
        if session is None:
            session = member.session = Timer(partial(self._session_is_over, group, member))
        self.context.timers.arm(session, deadline_ms)

    def _session_is_over(
        self, group: ClassicGroup, member: ClassicMember, outcome: Outcome, now_ms: int
    ) -> None:
        # While its request waits, a member may be unable to send heartbeats; the response starts a new
        # session. A new member is removed: its client may have retried under another id.
        if (member.is_joining or member.is_syncing) and not member.is_new:
            return
        trigger = member_trigger(SESSION_TIMED_OUT, member, now_ms)
        self.drop(outcome, group, member)
        self.prepare(outcome, group, trigger, now_ms)

    def drop(self, outcome: Outcome, group: ClassicGroup, member: ClassicMember) -> None:
        """Remove the member; the caller decides whether the group rebalances."""
        self.answer_waiting(outcome, group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        group.remove(member)

    def await_pending(self, group: ClassicGroup, member_id: str, deadline_ms: int) -> None:
        """Wait until `deadline_ms` for a member with an id that was returned to a client."""
        if len(group.pending_members) >= PENDING_MEMBERS_MAX:
            group.pending_members.pop(next(iter(group.pending_members))).discard()
        action = partial(self._pending_is_over, group, member_id)
        group.pending_members[member_id] = self.context.timers.start(action, deadline_ms)

    def _pending_is_over(self, group: ClassicGroup, member_id: str, outcome: Outcome, now_ms: int) -> None:
        del group.pending_members[member_id]
        self.complete_if_joined(outcome, group, now_ms)

    def park_join(
        self, outcome: Outcome, group: ClassicGroup, member: ClassicMember, ctx: RequestContext
    ) -> None:
        """Hold the member's JoinGroup until the others have joined. It replaces an earlier one."""
        if member.is_joining:
            outcome.answer(member.join_token, refused_join(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))
        else:
            member.is_joining = True
            group.joining_count += 1
        member.join_token = ctx.token
        member.join_version = ctx.api_version

    def park_sync(self, outcome: Outcome, member: ClassicMember, ctx: RequestContext) -> None:
        if member.is_syncing:
            self.answer_sync(outcome, member, ErrorCode.REBALANCE_IN_PROGRESS)
        member.is_syncing = True
        member.sync_token = ctx.token

    # Answers.

    def answer_waiting(
        self, outcome: Outcome, group: ClassicGroup, member: ClassicMember, code: ErrorCode
    ) -> None:
        """Answer the waiting requests of the member with the error."""
        if member.is_joining:
            name = member.member_id if code != ErrorCode.UNKNOWN_MEMBER_ID else ""
            self.answer_join(outcome, group, member, refused_join(name, code))
        if member.is_syncing:
            self.answer_sync(outcome, member, code)

    def answer_join(
        self, outcome: Outcome, group: ClassicGroup, member: ClassicMember, response: JoinGroupResponse
    ) -> None:
        outcome.answer(member.join_token, response)
        member.is_joining = False
        member.join_token = None
        group.joining_count -= 1

    def answer_sync(
        self, outcome: Outcome, member: ClassicMember, code: ErrorCode, group: ClassicGroup | None = None
    ) -> None:
        outcome.answer(member.sync_token, sync_response(code, group, member))
        member.is_syncing = False
        member.sync_token = None


def member_trigger(what: str, member: ClassicMember, now_ms: int, detail: str | None = None) -> Trigger:
    return Trigger(what, now_ms, member.member_id, member.client_id, member.client_host, detail or "")


def refused_join(member_id: str, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(member_id=member_id, error_code=code)


def joined_response(group: ClassicGroup, member: ClassicMember) -> JoinGroupResponse:
    """Return the generation for a member; the leader also gets the list of members."""
    is_leader = member.member_id == group.leader_id
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol,
        protocol_name=group.protocol_name or "",
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=members_of(group) if is_leader else [],
    )


def members_of(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    name = group.protocol_name or ""
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(name),
        )
        for member in group.members.values()
    ]


def sync_response(code: ErrorCode, group: ClassicGroup | None, member: ClassicMember) -> SyncGroupResponse:
    if code or group is None:
        return SyncGroupResponse(error_code=code)
    return SyncGroupResponse(
        protocol_type=group.protocol, protocol_name=group.protocol_name, assignment=member.assignment
    )
