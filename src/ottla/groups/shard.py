"""One partition of __consumer_offsets: requests, timers and records in, outcomes out.

The shell's part: it replays the log through `apply` (or `apply_bytes`), calls `loaded`, and from then on
gives requests to `decide_*` and the time to `tick` when `next_wake_ms` has come. It appends the records of an
outcome as one batch and gives its replies when they are committed. Records are applied when they are
decided; if an append fails, the shard is given up (`abandon`) and made anew from the log.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.groups.classic.protocol import ClassicProtocol
from ottla.groups.config import GroupsConfig
from ottla.groups.consumer.protocol import ConsumerProtocol
from ottla.groups.context import ShardContext
from ottla.groups.group import CLASSIC, CONSUMER, Group
from ottla.groups.outcome import Outcome, RequestContext, Token
from ottla.groups.topics_view import TopicsView
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.consumer_group_describe_response import DescribedGroup as ConsumerDescribedGroup
from ottla.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.heartbeat_response import HeartbeatResponse
from ottla.protocol.messages.join_group_request import JoinGroupRequest
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest
from ottla.protocol.messages.leave_group_response import LeaveGroupResponse
from ottla.protocol.messages.sync_group_request import SyncGroupRequest


class GroupShard:
    """`new_uuid` gives the text that makes a member id unique."""

    __slots__ = ("classic", "consumer", "context")

    def __init__(self, config: GroupsConfig, topics: TopicsView, new_uuid: Callable[[], str]) -> None:
        self.context = ShardContext(config, topics, new_uuid)
        self.classic = ClassicProtocol(self.context)
        self.consumer = ConsumerProtocol(self.context, self.classic)

    # Records.

    def apply(self, key: Message, value: Message | None, timestamp_ms: int) -> None:
        """A record of the log. Types that are not known here are passed over: another version wrote them."""
        applier = self.context.appliers.get(key.API_KEY)
        if applier is not None:
            applier(key, value, timestamp_ms)

    def loaded(self, now_ms: int) -> Outcome:
        """The log is applied to its end: sessions begin anew, requests may come."""
        outcome = Outcome()
        self.classic.loaded(outcome, now_ms)
        self.consumer.loaded(outcome, now_ms)
        return outcome

    def abandon(self, code: ErrorCode) -> list[tuple[Token, Message]]:
        """The shard is no longer ours, or its append failed: what to answer those who wait."""
        return self.classic.abandon(code) + self.consumer.abandon(code)

    # Time.

    @property
    def next_wake_ms(self) -> int | None:
        return self.context.timers.next_wake_ms

    def tick(self, now_ms: int) -> Outcome:
        outcome = Outcome()
        self.context.timers.run(outcome, now_ms)
        return outcome

    def topics_changed(self, now_ms: int) -> Outcome:
        """To be told when the epoch of the topics view has moved."""
        outcome = Outcome()
        self.consumer.topics_changed(outcome, now_ms)
        return outcome

    # Membership.

    def group(self, group_id: str) -> Group | None:
        return self.context.groups.get(group_id)

    def decide_join_group(self, request: JoinGroupRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        refusal = self.classic.refuse_join(request)
        if refusal is not None:
            return Outcome(refusal)
        group = self.context.groups.get(request.group_id)
        if group is not None and group.TYPE == CONSUMER:
            return self.consumer.classic_join(group, request, ctx, now_ms)
        return self.classic.join(request, ctx, now_ms)

    def decide_sync_group(self, request: SyncGroupRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        refusal = self.classic.refuse_sync(request, ctx)
        if refusal is not None:
            return Outcome(refusal)
        group = self.context.groups.get(request.group_id)
        if group is not None and group.TYPE == CONSUMER:
            return self.consumer.classic_sync(group, request, ctx, now_ms)
        return self.classic.sync(request, ctx, now_ms)

    def decide_heartbeat(self, request: HeartbeatRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        if not request.group_id:
            return Outcome(HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        group = self.context.groups.get(request.group_id)
        if group is not None and group.TYPE != CLASSIC:
            return self.consumer.classic_heartbeat(group, request, ctx, now_ms)
        return self.classic.heartbeat(request, ctx, now_ms)

    def decide_leave_group(self, request: LeaveGroupRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        if not request.group_id:
            return Outcome(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        group = self.context.groups.get(request.group_id)
        if group is not None and group.TYPE == CONSUMER:
            return self.consumer.classic_leave(group, request, ctx, now_ms)
        return self.classic.leave(request, ctx, now_ms)

    def decide_consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, ctx: RequestContext, now_ms: int
    ) -> Outcome:
        return self.consumer.heartbeat(request, ctx, now_ms)

    def describe_consumer_group(self, group_id: str) -> ConsumerDescribedGroup:
        return self.consumer.describe(group_id)
