"""Producer ids from blocks that the controller allocates: unique over all brokers and restarts."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.broker.metadata.controller_channel import ControllerUnreachable
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata.controller_channel import ControllerChannel

# A broker that cannot reach the controller may be partitioned off: the client should try another one.
WAIT_MS = 2000

log = logging.getLogger("ottla.producer_ids")


class ProducerIds:
    def __init__(self, identity: NodeIdentity, controller: ControllerChannel) -> None:
        self._identity = identity
        self._controller = controller
        self._next = 0
        self._end = 0
        self._refill = asyncio.Lock()

    def next(self) -> int | None:
        """An id of the current block, or None if the block is used up."""
        if self._next == self._end:
            return None
        self._next += 1
        return self._next - 1

    async def allocate(self) -> int | None:
        """An id, from a new block if needed; None if the controller does not allocate one."""
        async with self._refill:
            producer_id = self.next()
            if producer_id is None and await self._allocate_block():
                producer_id = self.next()
            return producer_id

    async def _allocate_block(self) -> bool:
        message = AllocateProducerIdsRequest(
            broker_id=self._identity.node_id, broker_epoch=self._identity.broker_epoch
        )
        try:
            block = await self._controller.ask(message, timeout_ms=WAIT_MS)
        except (ControllerUnreachable, StorageError) as error:
            log.error("no producer ids: error=%s", error)
            return False
        if block.error_code:
            log.error("no producer ids: error=%s", ErrorCode(block.error_code).name)
            return False
        self._next = block.producer_id_start
        self._end = self._next + block.producer_id_len
        return True
