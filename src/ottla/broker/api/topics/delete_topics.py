"""DeleteTopics (20): delete topics by name or id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.forwarding import controller_api
from ottla.controller.topics.delete_topics import decide_delete_topics
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse

if TYPE_CHECKING:
    from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest


def refuse(message: DeleteTopicsRequest, code: int, reason: str) -> DeleteTopicsResponse:
    by_name = [
        DeletableTopicResult(name=name, error_code=code, error_message=reason) for name in message.topic_names
    ]
    by_name_or_id = [
        DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code, error_message=reason)
        for topic in message.topics
    ]
    return DeleteTopicsResponse(responses=by_name + by_name_or_id)


API = controller_api(ApiKey.DELETE_TOPICS, decide=decide_delete_topics, refuse=refuse)
