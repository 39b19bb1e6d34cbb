"""EndTxn (26): commit or abort a transaction. The response follows the decision, before the markers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.api.refusal import refuse_whole
from ottla.machines.outcome import Outcome, RequestContext
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.transactions.shard import TransactionShard

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request


def create(parts: ApiParts) -> Handler:
    transactions = parts.transactions

    def handle(request: Request, message: EndTxnRequest) -> Any:
        context = RequestContext(api_version=request.version)

        def decide(machine: TransactionShard, now_ms: int, fresh_id: int) -> Outcome:
            return machine.decide_end_txn(message, context, now_ms, fresh_id)

        return transactions.ask(
            message.transactional_id,
            decide,
            lambda code: refuse_whole(message, code),
            is_concurrent=lambda reply: reply.error_code == ErrorCode.CONCURRENT_TRANSACTIONS,
        )

    return handle


API = ApiDeclaration(ApiKey.END_TXN, create, refuse=refuse_whole)
