"""IncrementalAlterConfigs (44): change single properties of topics, brokers or groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.forwarding import controller_api
from ottla.controller.cluster.configs import decide_incremental_alter_configs
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from ottla.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest


def refuse(
    message: IncrementalAlterConfigsRequest, code: int, reason: str
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
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


API = controller_api(ApiKey.INCREMENTAL_ALTER_CONFIGS, decide=decide_incremental_alter_configs, refuse=refuse)
