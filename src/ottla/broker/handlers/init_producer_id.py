"""InitProducerId (22): an identity for an idempotent producer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.connection import Request

API_KEY = 22


def handle(broker: Broker, request: Request, message: InitProducerIdRequest) -> Any:
    if message.transactional_id is not None:
        # Without a transaction coordinator nobody could fence a predecessor: better none than half a promise.
        return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    producer_id = broker.producer_ids.next()
    if producer_id is None:
        return _after_allocation(broker)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _after_allocation(broker: Broker) -> InitProducerIdResponse:
    producer_id = await broker.producer_ids.allocate()
    if producer_id is None:
        return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)  # come again
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
