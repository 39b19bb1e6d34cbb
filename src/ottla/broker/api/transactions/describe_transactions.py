"""DescribeTransactions (65): the state of transactional ids that this broker coordinates."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.coordinators.replies import merge_replies
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ottla.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request
    from ottla.transactions.shard import TransactionShard


def create(parts: ApiParts) -> Handler:
    shards = parts.transactions.shards

    def handle(request: Request, message: DescribeTransactionsRequest) -> Any:
        states = [
            shards.read(each, partial(_describe, each), partial(_refused, each))
            for each in dict.fromkeys(message.transactional_ids)
        ]
        return merge_replies(states, lambda found: DescribeTransactionsResponse(transaction_states=found))

    return handle


def _describe(transactional_id: str, shard: TransactionShard, now_ms: int) -> TransactionState:
    return shard.describe_transaction(transactional_id)


def _refused(transactional_id: str, code: int) -> TransactionState:
    return TransactionState(transactional_id=transactional_id, error_code=code)


API = ApiDeclaration(ApiKey.DESCRIBE_TRANSACTIONS, create)
