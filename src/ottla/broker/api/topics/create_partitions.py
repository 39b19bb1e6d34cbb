"""CreatePartitions (37): add partitions to topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.forwarding import controller_api
from ottla.controller.topics.create_partitions import decide_create_partitions
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest


def refuse(message: CreatePartitionsRequest, code: int, reason: str) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=reason)
            for topic in message.topics
        ]
    )


API = controller_api(ApiKey.CREATE_PARTITIONS, decide=decide_create_partitions, refuse=refuse)
