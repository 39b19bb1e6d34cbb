"""CreateTopics (19): decided by the controller, answered when the topics can be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.messages.create_topics_request import CreateTopicsRequest
from ottla.protocol.messages.create_topics_response import CreateTopicsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.connection import Request

API_KEY = 19


async def handle(broker: Broker, request: Request, message: CreateTopicsRequest) -> CreateTopicsResponse:
    return await broker.change(
        message, lambda controller, now_ms: controller.decide_create_topics(message, now_ms)
    )
