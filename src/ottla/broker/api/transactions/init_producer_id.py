"""InitProducerId (22): a producer id, or the next epoch of a transactional producer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import ApiDeclaration
from ottla.broker.api.request_context import request_context
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.coordinators.transactions import TransactionCoordinator
    from ottla.broker.metadata.producer_ids import ProducerIds
    from ottla.broker.net.request import Request


class InitProducerId:
    def __init__(self, producer_ids: ProducerIds, transactions: TransactionCoordinator) -> None:
        self._producer_ids = producer_ids
        self._transactions = transactions

    def handle(self, request: Request, message: InitProducerIdRequest) -> Any:
        if message.transactional_id is not None:
            if not message.transactional_id:
                return _refused(ErrorCode.INVALID_REQUEST)
            context = request_context(request)
            return self._transactions.submit(
                message.transactional_id,
                lambda shard, now_ms, fresh_id: shard.decide_init_producer_id(
                    message, context, now_ms, fresh_id
                ),
                _refused,
            )
        producer_id = self._producer_ids.next()
        if producer_id is None:
            return self._allocate_then_respond()
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)

    async def _allocate_then_respond(self) -> InitProducerIdResponse:
        producer_id = await self._producer_ids.allocate()
        if producer_id is None:
            return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)  # the client retries
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refused(code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code)


def create(parts: ApiParts) -> Handler:
    return InitProducerId(parts.producer_ids, parts.transactions).handle


API = ApiDeclaration(ApiKey.INIT_PRODUCER_ID, create)
