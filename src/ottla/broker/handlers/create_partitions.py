"""CreatePartitions (37): more partitions for existing topics; never fewer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest
from ottla.protocol.messages.create_partitions_response import CreatePartitionsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.connection import Request

API_KEY = 37


async def handle(
    broker: Broker, request: Request, message: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    return await broker.change(
        message, lambda controller, now_ms: controller.decide_create_partitions(message, now_ms)
    )
