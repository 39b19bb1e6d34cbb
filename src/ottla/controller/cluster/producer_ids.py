"""Decides on AllocateProducerIds: blocks of ids that no other producer ever gets."""

from __future__ import annotations

from ottla.controller.context import Context
from ottla.machines.outcome import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from ottla.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from ottla.protocol.messages.producer_ids_record import ProducerIdsRecord

BLOCK_IDS = 1000
ID_MAX = 2**63 - 1


def decide_allocate_producer_ids(
    context: Context, request: AllocateProducerIdsRequest
) -> Outcome[AllocateProducerIdsResponse]:
    broker = context.image.brokers.get(request.broker_id)
    start = context.image.next_producer_id
    code = ErrorCode.NONE
    if broker is None:
        code = ErrorCode.BROKER_ID_NOT_REGISTERED
    elif broker.epoch != request.broker_epoch:
        code = ErrorCode.STALE_BROKER_EPOCH
    elif start > ID_MAX - BLOCK_IDS:
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    if code != ErrorCode.NONE:
        return Outcome(AllocateProducerIdsResponse(error_code=code))
    record = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=start + BLOCK_IDS
    )
    return Outcome(
        AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=BLOCK_IDS), records=[record]
    )
