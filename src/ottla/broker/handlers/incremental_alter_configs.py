"""IncrementalAlterConfigs (44): sets, deletes, appends to or subtracts from single properties."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from ottla.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.connection import Request

API_KEY = 44


async def handle(
    broker: Broker, request: Request, message: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    return await broker.change(
        message, lambda controller, now_ms: controller.decide_incremental_alter_configs(message, now_ms)
    )
