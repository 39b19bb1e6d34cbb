"""Producer ids from blocks that the controller allocates: unique over all brokers and restarts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


class ProducerIds:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._next = 0
        self._end = 0
        self._refill = asyncio.Lock()

    def next(self) -> int | None:
        """An id of the current block, or None when it is used up."""
        if self._next == self._end:
            return None
        self._next += 1
        return self._next - 1

    async def allocate(self) -> int:
        """An id, from a new block if another request has not fetched one meanwhile."""
        async with self._refill:
            producer_id = self.next()
            if producer_id is None:
                broker = self._broker
                message = AllocateProducerIdsRequest(
                    broker_id=broker.node_id, broker_epoch=broker.broker_epoch
                )
                block = await broker.controller.submit(
                    lambda controller, now_ms: controller.decide_allocate_producer_ids(message, now_ms)
                )
                if block.error_code:
                    raise RuntimeError(
                        f"the controller refused a block of producer ids: error {block.error_code}"
                    )
                self._next, self._end = (
                    block.producer_id_start,
                    block.producer_id_start + block.producer_id_len,
                )
                producer_id = self.next()
                assert producer_id is not None, "an allocated block is never empty"
            return producer_id
