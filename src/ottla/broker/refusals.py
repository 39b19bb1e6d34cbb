"""Admin requests refused as a whole: every item of the request gets the same error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.protocol.api import API_BY_KEY
from ottla.protocol.message import Message


def refused(message: Message, code: int, reason: str) -> Any:
    """The response to `message` in which everything failed for one reason."""
    return _BUILDERS[message.API_KEY](message, code, reason)


def _create_topics(message: Any, code: int, reason: str) -> Message:
    from ottla.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse

    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=code, error_message=reason, configs=None)
            for topic in message.topics
        ]
    )


def _delete_topics(message: Any, code: int, reason: str) -> Message:
    from ottla.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse

    by_name = [
        DeletableTopicResult(name=name, error_code=code, error_message=reason) for name in message.topic_names
    ]
    by_either = [
        DeletableTopicResult(name=each.name, topic_id=each.topic_id, error_code=code, error_message=reason)
        for each in message.topics
    ]
    return DeleteTopicsResponse(responses=by_name + by_either)


def _create_partitions(message: Any, code: int, reason: str) -> Message:
    from ottla.protocol.messages.create_partitions_response import (
        CreatePartitionsResponse,
        CreatePartitionsTopicResult,
    )

    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=reason)
            for topic in message.topics
        ]
    )


def _alter_configs(message: Any, code: int, reason: str) -> Message:
    from ottla.protocol.messages import alter_configs_response, incremental_alter_configs_response

    responses: Any = (
        alter_configs_response
        if message.API_KEY == alter_configs_response.AlterConfigsResponse.API_KEY
        else incremental_alter_configs_response
    )
    whole: type[Message] = API_BY_KEY[message.API_KEY].response_class()
    return whole(
        responses=[  # type: ignore[call-arg]
            responses.AlterConfigsResourceResponse(
                error_code=code,
                error_message=reason,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in message.resources
        ]
    )


def _producer_ids(message: Any, code: int, reason: str) -> Message:
    from ottla.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse

    return AllocateProducerIdsResponse(error_code=code)


_BUILDERS: dict[int, Callable[[Any, int, str], Message]] = {
    19: _create_topics,
    20: _delete_topics,
    33: _alter_configs,
    37: _create_partitions,
    44: _alter_configs,
    67: _producer_ids,
}
