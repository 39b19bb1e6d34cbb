"""InitProducerId (22): an identity for a producer, or the next epoch of a transactional one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node

API_KEY = 22


def handle(broker: Node, request: Request, message: InitProducerIdRequest) -> Any:
    if message.transactional_id is not None:
        return _transactional(broker, request, message)
    producer_id = broker.producer_ids.next()
    if producer_id is None:
        return _after_allocation(broker)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _after_allocation(broker: Node) -> InitProducerIdResponse:
    producer_id = await broker.producer_ids.allocate()
    if producer_id is None:
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)  # come again
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _transactional(broker: Node, request: Request, message: InitProducerIdRequest) -> Any:
    from ottla.machines.outcome import Outcome, RequestContext

    transactional_id = message.transactional_id
    if not transactional_id:
        return _refused(ErrorCode.INVALID_REQUEST)
    ctx = RequestContext(api_version=request.version)

    def decide(machine: Any, now_ms: int, fresh_id: int) -> Outcome:
        outcome: Outcome = machine.decide_init_producer_id(message, ctx, now_ms, fresh_id)
        return outcome

    return broker.transactions.ask(
        transactional_id,
        decide,
        _refused,
        is_concurrent=lambda reply: reply.error_code == ErrorCode.CONCURRENT_TRANSACTIONS,
    )


def _refused(code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code)
