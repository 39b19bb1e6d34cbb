"""AddPartitionsToTxn (24): add partitions to a transaction, or verify them, see `ottla.transactions.add`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.api.request_context import request_context
from ottla.broker.coordinators.replies import merge_replies
from ottla.protocol.api_keys import ApiKey
from ottla.transactions.add import response_of, transactions_of

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request
    from ottla.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest


def create(parts: ApiParts) -> Handler:
    transactions = parts.transactions

    def handle(request: Request, message: AddPartitionsToTxnRequest) -> Any:
        version, context = request.version, request_context(request)
        results = [
            transactions.add_partitions(transaction, context)
            for transaction in transactions_of(message, version)
        ]
        return merge_replies(results, lambda found: response_of(found, version))

    return handle


API = ApiDeclaration(ApiKey.ADD_PARTITIONS_TO_TXN, create)
