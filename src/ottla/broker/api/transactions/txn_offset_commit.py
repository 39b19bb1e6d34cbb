"""TxnOffsetCommit (28): offsets of a group that take effect when a transaction commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.api.request_context import request_context
from ottla.broker.coordinators.txn_offset_commit import txn_offset_commit
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from ottla.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request


def refuse(message: TxnOffsetCommitRequest, code: int, reason: str = "") -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )


def create(parts: ApiParts) -> Handler:
    coordinators, monotonic_ms = parts.coordinators, parts.monotonic_ms

    def handle(request: Request, message: TxnOffsetCommitRequest) -> Any:
        if not message.group_id:
            return refuse(message, ErrorCode.INVALID_GROUP_ID)
        return txn_offset_commit(
            message,
            request_context(request),
            lambda code: refuse(message, code),
            groups=coordinators.groups,
            verification=coordinators.verification,
            monotonic_ms=monotonic_ms,
        )

    return handle


API = ApiDeclaration(ApiKey.TXN_OFFSET_COMMIT, create, refuse=refuse)
