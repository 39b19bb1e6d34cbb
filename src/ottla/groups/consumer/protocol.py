"""The membership protocol of consumer groups, and the requests of their classic members."""

from __future__ import annotations

from ottla.groups.classic.protocol import ClassicProtocol
from ottla.groups.consumer.apply import add_appliers
from ottla.groups.consumer.classic_members import ClassicMembers
from ottla.groups.consumer.describe import describe_group
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.heartbeat import Heartbeats
from ottla.groups.consumer.membership import Membership
from ottla.groups.consumer.migration import Migration
from ottla.groups.context import ShardContext
from ottla.groups.group import Group
from ottla.machines.outcome import Outcome, RequestContext, Token
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.consumer_group_describe_response import DescribedGroup
from ottla.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.join_group_request import JoinGroupRequest
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest
from ottla.protocol.messages.sync_group_request import SyncGroupRequest


class ConsumerProtocol:
    __slots__ = ("_classic_members", "_heartbeats", "_membership", "context")

    def __init__(self, context: ShardContext, classic: ClassicProtocol) -> None:
        self.context = context
        migration = Migration(context, classic)
        self._membership = Membership(context, migration.turn_classic)
        self._heartbeats = Heartbeats(self._membership, migration)
        self._classic_members = ClassicMembers(self._membership, migration, classic)
        add_appliers(context)

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        return self._heartbeats.decide(request, ctx, now_ms)

    def describe(self, group_id: str) -> DescribedGroup:
        return describe_group(self._membership, group_id)

    # Requests of the classic protocol to a group of type Consumer. The caller has validated the group id and
    # the session timeout of a JoinGroup.

    def classic_join(
        self, group: Group, request: JoinGroupRequest, ctx: RequestContext, now_ms: int
    ) -> Outcome:
        assert isinstance(group, ConsumerGroup)
        return self._classic_members.join(group, request, ctx, now_ms)

    def classic_sync(
        self, group: Group, request: SyncGroupRequest, ctx: RequestContext, now_ms: int
    ) -> Outcome:
        assert isinstance(group, ConsumerGroup)
        return self._classic_members.sync(group, request, now_ms)

    def classic_heartbeat(
        self, group: Group, request: HeartbeatRequest, ctx: RequestContext, now_ms: int
    ) -> Outcome:
        assert isinstance(group, ConsumerGroup)
        return self._classic_members.heartbeat(group, request, now_ms)

    def classic_leave(
        self, group: Group, request: LeaveGroupRequest, ctx: RequestContext, now_ms: int
    ) -> Outcome:
        assert isinstance(group, ConsumerGroup)
        return self._classic_members.leave(group, request, ctx, now_ms)

    def loaded(self, outcome: Outcome, now_ms: int) -> None:
        """All records of the log are applied: give every member a fresh session."""
        self._membership.loaded(outcome, now_ms)

    def topics_changed(self, outcome: Outcome, now_ms: int) -> None:
        """Do nothing: a group detects the new epoch of the topics view with its next heartbeat.

        Earlier detection would require a scan of all groups with every change.
        """

    def abandon(self, code: ErrorCode) -> list[tuple[Token, Message]]:
        """The shard is dropped: return a response for every waiting request. This protocol has none."""
        return []
