"""DescribeTransactions (65): the state of transactional ids that this broker looks after."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.groups import together
from ottla.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ottla.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node
    from ottla.transactions.shard import TransactionShard

API_KEY = 65


def handle(broker: Node, request: Request, message: DescribeTransactionsRequest) -> Any:
    def describe(transactional_id: str, shard: TransactionShard) -> TransactionState:
        return shard.describe_transaction(transactional_id)

    answers = [
        broker.transactions.look(each, partial(describe, each), partial(_refused, each))
        for each in dict.fromkeys(message.transactional_ids)
    ]
    return together(answers, lambda states: DescribeTransactionsResponse(transaction_states=states))


def _refused(transactional_id: str, code: int) -> TransactionState:
    return TransactionState(transactional_id=transactional_id, error_code=code)
