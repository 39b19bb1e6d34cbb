"""EndTxn (26): commit or abort a transaction. The response follows the decision, before the markers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.api.refusal import refuse_whole
from ottla.broker.api.request_context import request_context
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.end_txn_request import EndTxnRequest

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request


def create(parts: ApiParts) -> Handler:
    transactions = parts.transactions

    def handle(request: Request, message: EndTxnRequest) -> Any:
        context = request_context(request)
        return transactions.submit(
            message.transactional_id,
            lambda shard, now_ms, fresh_id: shard.decide_end_txn(message, context, now_ms, fresh_id),
            lambda code: refuse_whole(message, code),
        )

    return handle


API = ApiDeclaration(ApiKey.END_TXN, create, refuse=refuse_whole)
