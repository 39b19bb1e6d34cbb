"""AlterConfigs (33): replace the configuration of topics, brokers or groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.forwarding import controller_api
from ottla.controller.cluster.configs import decide_alter_configs
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.alter_configs_response import (
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from ottla.protocol.messages.alter_configs_request import AlterConfigsRequest


def refuse(message: AlterConfigsRequest, code: int, reason: str) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=code,
                error_message=reason,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in message.resources
        ]
    )


API = controller_api(ApiKey.ALTER_CONFIGS, decide=decide_alter_configs, refuse=refuse)
