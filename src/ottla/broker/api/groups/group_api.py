"""APIs that one group decides: most requests of group members."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration, Handler, Refuse
from ottla.broker.api.refusal import refuse_whole
from ottla.broker.api.request_context import request_context
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request
    from ottla.groups.shard import GroupShard
    from ottla.machines.outcome import Outcome, RequestContext
    from ottla.protocol.api_keys import ApiKey

Decide = Callable[["GroupShard", Any, "RequestContext", int], "Outcome"]


def group_api(
    key: ApiKey, decide: Decide, *, refuse: Refuse = refuse_whole, writes: bool = True
) -> ApiDeclaration:
    """The declaration of an API that the shard of `group_id` decides: `decide` is a method of GroupShard.

    `writes` is False for a request that usually appends nothing: it is served while the log cannot be
    written.
    """

    def create(parts: ApiParts) -> Handler:
        shards = parts.groups.shards

        def handle(request: Request, message: Any) -> Any:
            if not message.group_id:
                return refuse(message, ErrorCode.INVALID_GROUP_ID, "")
            context = request_context(request)
            return shards.submit(
                message.group_id,
                lambda shard, now_ms: decide(shard, message, context, now_ms),
                lambda code: refuse(message, code, ""),
                context,
                writes=writes,
            )

        return handle

    return ApiDeclaration(key, create, refuse=refuse)
