"""OffsetCommit (8): commit the offsets of a group.

The group id may be empty: old clients commit offsets without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.api.request_context import request_context
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request
    from ottla.protocol.messages.offset_commit_request import OffsetCommitRequest


def refuse(message: OffsetCommitRequest, code: int, reason: str) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                    for partition in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )


def create(parts: ApiParts) -> Handler:
    shards = parts.groups.shards

    def handle(request: Request, message: OffsetCommitRequest) -> Any:
        context = request_context(request)
        return shards.submit(
            message.group_id,
            lambda shard, now_ms: shard.decide_offset_commit(message, context, now_ms),
            lambda code: refuse(message, code, ""),
            context,
        )

    return handle


API = ApiDeclaration(ApiKey.OFFSET_COMMIT, create, refuse=refuse)
