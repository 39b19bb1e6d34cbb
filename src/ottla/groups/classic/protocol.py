"""The classic protocol of one shard: what each request comes to."""

from __future__ import annotations

from ottla.groups.context import ShardContext
from ottla.groups.outcome import Outcome, RequestContext, Token
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.join_group_request import JoinGroupRequest
from ottla.protocol.messages.join_group_response import JoinGroupResponse
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest
from ottla.protocol.messages.sync_group_request import SyncGroupRequest


class ClassicProtocol:
    __slots__ = ("context",)

    def __init__(self, context: ShardContext) -> None:
        self.context = context

    def refuse_join(self, request: JoinGroupRequest, ctx: RequestContext) -> JoinGroupResponse | None:
        return None

    def join(self, request: JoinGroupRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        raise NotImplementedError

    def sync(self, request: SyncGroupRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        raise NotImplementedError

    def heartbeat(self, request: HeartbeatRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        raise NotImplementedError

    def leave(self, request: LeaveGroupRequest, ctx: RequestContext, now_ms: int) -> Outcome:
        raise NotImplementedError

    def loaded(self, outcome: Outcome, now_ms: int) -> None:
        pass

    def abandon(self, code: ErrorCode) -> list[tuple[Token, Message]]:
        return []
