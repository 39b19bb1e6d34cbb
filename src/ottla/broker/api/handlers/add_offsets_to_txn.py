"""AddOffsetsToTxn (25): the partition where a group's offsets are becomes part of a transaction."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.api.refusals import refused
from ottla.broker.metadata.topic_creator import GROUP_TOPIC
from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ottla.transactions.shard import TransactionShard

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node

API_KEY = 25


def handle(broker: Node, request: Request, message: AddOffsetsToTxnRequest) -> Any:
    index = broker.groups.index_of(message.group_id)
    if index is None:
        return _after_creation(broker, request, message)
    return _add(broker, request, message, index)


async def _after_creation(broker: Node, request: Request, message: AddOffsetsToTxnRequest) -> Any:
    await broker.topic_creator.find_or_create(GROUP_TOPIC)
    index = broker.groups.index_of(message.group_id)
    if index is None:
        return refused(message, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answer = _add(broker, request, message, index)
    return await answer if isinstance(answer, asyncio.Future) else answer


def _add(broker: Node, request: Request, message: AddOffsetsToTxnRequest, index: int) -> Any:
    ctx = RequestContext(api_version=request.version)

    def decide(machine: TransactionShard, now_ms: int, _: int) -> Outcome:
        return machine.decide_add_offsets(message, ctx, now_ms, (GROUP_TOPIC, index))

    return broker.transactions.ask(
        message.transactional_id,
        decide,
        partial(refused, message),
        is_concurrent=lambda reply: reply.error_code == ErrorCode.CONCURRENT_TRANSACTIONS,
    )
