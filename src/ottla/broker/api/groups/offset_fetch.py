"""OffsetFetch (9): the committed offsets of one group or, since version 8, of several."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.coordinators.replies import merge_replies
from ottla.groups.offsets.fetch import groups_of, refused_fetch, response_of
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.offset_fetch_response import OffsetFetchResponseGroup

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request
    from ottla.groups.shard import GroupShard


def create(parts: ApiParts) -> Handler:
    shards = parts.groups.shards

    def handle(request: Request, message: OffsetFetchRequest) -> Any:
        version, require_stable = request.version, message.require_stable

        def refuse(group: OffsetFetchRequestGroup, code: int) -> OffsetFetchResponseGroup:
            return refused_fetch(group, ErrorCode(code), version)

        def fetch(group: OffsetFetchRequestGroup, shard: GroupShard, now_ms: int) -> OffsetFetchResponseGroup:
            return shard.fetch_offsets(group, require_stable, version)

        results = [
            shards.read(group.group_id, partial(fetch, group), partial(refuse, group))
            for group in groups_of(message, version)
        ]
        return merge_replies(results, lambda groups: response_of(groups, version))

    return handle


API = ApiDeclaration(ApiKey.OFFSET_FETCH, create)
