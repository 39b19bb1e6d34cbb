"""AlterConfigs (33): replaces everything that is set on a topic or broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.messages.alter_configs_request import AlterConfigsRequest
from ottla.protocol.messages.alter_configs_response import AlterConfigsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.connection import Request

API_KEY = 33


async def handle(broker: Broker, request: Request, message: AlterConfigsRequest) -> AlterConfigsResponse:
    return await broker.change(
        message, lambda controller, now_ms: controller.decide_alter_configs(message, now_ms)
    )
