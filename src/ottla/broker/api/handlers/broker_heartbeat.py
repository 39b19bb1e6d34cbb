"""BrokerHeartbeat (63): a broker lives, and says what it wants.

Its connection is watched from then on, see `controller_duties`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node

API_KEY = 63


async def handle(broker: Node, request: Request, message: BrokerHeartbeatRequest) -> Any:
    broker.controllers.heartbeat_received(message.broker_id, message.broker_epoch, request.connection)
    return await broker.change(request, message)
