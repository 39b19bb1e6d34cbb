"""BrokerHeartbeat (63): a broker reports that it is alive, and which state it wants.

From then on the controller watches the connection, see `metadata/controller_duties.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import CONTROLLER, ApiDeclaration
from ottla.broker.api.forwarding import ForwardToController
from ottla.broker.api.refusal import refuse_whole
from ottla.controller.brokers.heartbeat import decide_broker_heartbeat
from ottla.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from ottla.broker.api.declaration import DecisionPoint, Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request
    from ottla.controller.context import Context
    from ottla.machines.outcome import Outcome
    from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
    from ottla.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse


def decide(
    context: Context, message: BrokerHeartbeatRequest, at: DecisionPoint
) -> Outcome[BrokerHeartbeatResponse]:
    return decide_broker_heartbeat(context, message, at.now_ms, at.next_offset)


def create(parts: ApiParts) -> Handler:
    controllers, forward = parts.controllers, ForwardToController(API, parts.controller).handle

    async def handle(request: Request, message: BrokerHeartbeatRequest) -> Any:
        controllers.heartbeat_received(message.broker_id, message.broker_epoch, request.connection)
        return await forward(request, message)

    return handle


API = ApiDeclaration(
    ApiKey.BROKER_HEARTBEAT, create, decided_by=CONTROLLER, decide=decide, refuse=refuse_whole
)
