"""CreateTopics (19): create topics with their partitions, replicas and configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.forwarding import controller_api
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse

if TYPE_CHECKING:
    from ottla.broker.api.declaration import DecisionContext
    from ottla.controller.controller import Controller
    from ottla.machines.outcome import Outcome
    from ottla.protocol.messages.create_topics_request import CreateTopicsRequest


def decide(controller: Controller, message: CreateTopicsRequest, context: DecisionContext) -> Outcome:
    return controller.decide_create_topics(message, context.now_ms)


def refuse(message: CreateTopicsRequest, code: int, reason: str) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=code, error_message=reason, configs=None)
            for topic in message.topics
        ]
    )


API = controller_api(ApiKey.CREATE_TOPICS, decide=decide, refuse=refuse)
