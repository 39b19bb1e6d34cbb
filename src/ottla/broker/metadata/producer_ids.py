"""Producer ids from blocks that the controller allocates: unique over all brokers and restarts."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest

if TYPE_CHECKING:
    from ottla.broker.node import Node

# A broker that cannot reach the controller soon may be cut off: the client had better ask another.
WAIT_MS = 2000

log = logging.getLogger("ottla.producer_ids")


class ProducerIds:
    def __init__(self, broker: Node) -> None:
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

    async def allocate(self) -> int | None:
        """An id, from a new block if another request has not fetched one; None if none is to be had now."""
        async with self._refill:
            producer_id = self.next()
            if producer_id is None:
                broker = self._broker
                message = AllocateProducerIdsRequest(
                    broker_id=broker.node_id, broker_epoch=broker.broker_epoch
                )
                block = await broker.command(message, timeout_ms=WAIT_MS)
                if block.error_code:
                    log.error("no producer ids: error=%s", ErrorCode(block.error_code).name)
                    return None
                self._next = block.producer_id_start
                self._end = self._next + block.producer_id_len
                producer_id = self.next()
            return producer_id
