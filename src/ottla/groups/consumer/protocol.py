"""The membership protocol of consumer groups, and what classic members of such a group are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.groups.context import ShardContext
from ottla.groups.group import Group
from ottla.groups.outcome import Outcome, RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message

if TYPE_CHECKING:
    from ottla.groups.classic.protocol import ClassicProtocol
    from ottla.protocol.messages.consumer_group_describe_response import DescribedGroup
    from ottla.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
    from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
    from ottla.protocol.messages.join_group_request import JoinGroupRequest
    from ottla.protocol.messages.leave_group_request import LeaveGroupRequest
    from ottla.protocol.messages.sync_group_request import SyncGroupRequest


class ConsumerProtocol:
    __slots__ = ("classic", "context")

    def __init__(self, context: ShardContext, classic: ClassicProtocol) -> None:
        self.context = context
        self.classic = classic

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        raise NotImplementedError

    def describe(self, group_id: str) -> DescribedGroup:
        raise NotImplementedError

    # Requests of the classic protocol to a group of type Consumer. Whether a JoinGroup may turn up is
    # settled before: group id and session timeout are valid.

    def classic_join(
        self, group: Group, request: JoinGroupRequest, ctx: RequestContext, now_ms: int
    ) -> Outcome:
        raise NotImplementedError

    def classic_sync(
        self, group: Group, request: SyncGroupRequest, ctx: RequestContext, now_ms: int
    ) -> Outcome:
        raise NotImplementedError

    def classic_heartbeat(
        self, group: Group, request: HeartbeatRequest, ctx: RequestContext, now_ms: int
    ) -> Outcome:
        raise NotImplementedError

    def classic_leave(
        self, group: Group, request: LeaveGroupRequest, ctx: RequestContext, now_ms: int
    ) -> Outcome:
        raise NotImplementedError

    def loaded(self, outcome: Outcome, now_ms: int) -> None:
        """All records of the log are applied: give every member a fresh session."""

    def topics_changed(self, outcome: Outcome, now_ms: int) -> None:
        """The epoch of the topics view has moved."""

    def abandon(self, code: ErrorCode) -> list[tuple[object, Message]]:
        """The shard is given up: an answer for every request that waits."""
        return []
