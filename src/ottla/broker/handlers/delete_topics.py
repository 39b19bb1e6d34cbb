"""DeleteTopics (20): by name or by id; the data goes after the delay that file.delete.delay.ms gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ottla.protocol.messages.delete_topics_response import DeleteTopicsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.connection import Request

API_KEY = 20


async def handle(broker: Broker, request: Request, message: DeleteTopicsRequest) -> DeleteTopicsResponse:
    return await broker.change(
        message, lambda controller, now_ms: controller.decide_delete_topics(message, now_ms)
    )
