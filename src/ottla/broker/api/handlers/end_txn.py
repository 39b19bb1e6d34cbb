"""EndTxn (26): a transaction is committed or aborted. The answer comes when that is certain; the markers are
written after it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.api.refusals import refused
from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.transactions.shard import TransactionShard

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node

API_KEY = 26


def handle(broker: Node, request: Request, message: EndTxnRequest) -> Any:
    ctx = RequestContext(api_version=request.version)

    def decide(machine: TransactionShard, now_ms: int, fresh_id: int) -> Outcome:
        return machine.decide_end_txn(message, ctx, now_ms, fresh_id)

    return broker.transactions.ask(
        message.transactional_id,
        decide,
        partial(refused, message),
        is_concurrent=lambda reply: reply.error_code == ErrorCode.CONCURRENT_TRANSACTIONS,
    )
