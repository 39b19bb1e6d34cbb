"""AddOffsetsToTxn (25): add the offsets partition of a group to a transaction."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.api.refusal import refuse_whole
from ottla.broker.api.request_context import request_context
from ottla.broker.metadata.topic_creator import GROUP_TOPIC
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.coordinators.groups import GroupCoordinator
    from ottla.broker.coordinators.transactions import TransactionCoordinator
    from ottla.broker.metadata.topic_creator import TopicCreator
    from ottla.broker.net.request import Request


class AddOffsetsToTxn:
    def __init__(
        self, groups: GroupCoordinator, transactions: TransactionCoordinator, topic_creator: TopicCreator
    ) -> None:
        self._groups = groups
        self._transactions = transactions
        self._topic_creator = topic_creator

    def handle(self, request: Request, message: AddOffsetsToTxnRequest) -> Any:
        index = self._groups.shards.index_of(message.group_id)
        if index is None:
            return self._create_then_add(request, message)
        return self._add(request, message, index)

    async def _create_then_add(self, request: Request, message: AddOffsetsToTxnRequest) -> Any:
        await self._topic_creator.find_or_create(GROUP_TOPIC)
        index = self._groups.shards.index_of(message.group_id)
        if index is None:
            return refuse_whole(message, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        response = self._add(request, message, index)
        return await response if isinstance(response, asyncio.Future) else response

    def _add(self, request: Request, message: AddOffsetsToTxnRequest, index: int) -> Any:
        context = request_context(request)
        return self._transactions.submit(
            message.transactional_id,
            lambda shard, now_ms, _: shard.decide_add_offsets(message, context, now_ms, (GROUP_TOPIC, index)),
            lambda code: refuse_whole(message, code),
        )


def create(parts: ApiParts) -> Handler:
    return AddOffsetsToTxn(parts.groups, parts.transactions, parts.topic_creator).handle


API = ApiDeclaration(ApiKey.ADD_OFFSETS_TO_TXN, create, refuse=refuse_whole)
