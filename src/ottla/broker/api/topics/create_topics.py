"""CreateTopics (19): create topics with their partitions, replicas and configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.forwarding import controller_api
from ottla.controller.topics.create_topics import decide_create_topics
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse

if TYPE_CHECKING:
    from ottla.protocol.messages.create_topics_request import CreateTopicsRequest


def refuse(message: CreateTopicsRequest, code: int, reason: str) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=code, error_message=reason, configs=None)
            for topic in message.topics
        ]
    )


API = controller_api(ApiKey.CREATE_TOPICS, decide=decide_create_topics, refuse=refuse)
