"""CreateTopics (19): decided by the controller, answered when the topics can be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.messages.create_topics_request import CreateTopicsRequest
from ottla.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.connection import Request

API_KEY = 19


async def handle(broker: Broker, request: Request, message: CreateTopicsRequest) -> CreateTopicsResponse:
    try:
        return await broker.controller.submit(
            lambda controller, now_ms: controller.decide_create_topics(message, now_ms)
        )
    except StorageError as error:
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(
                    name=topic.name, error_code=error.code, error_message=error.reason, configs=None
                )
                for topic in message.topics
            ]
        )
