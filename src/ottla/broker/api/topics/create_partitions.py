"""CreatePartitions (37): add partitions to topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.forwarding import controller_api
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from ottla.broker.api.declaration import DecisionContext
    from ottla.controller.controller import Controller
    from ottla.machines.outcome import Outcome
    from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest


def decide(controller: Controller, message: CreatePartitionsRequest, context: DecisionContext) -> Outcome:
    return controller.decide_create_partitions(message, context.now_ms)


def refuse(message: CreatePartitionsRequest, code: int, reason: str) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=reason)
            for topic in message.topics
        ]
    )


API = controller_api(ApiKey.CREATE_PARTITIONS, decide=decide, refuse=refuse)
