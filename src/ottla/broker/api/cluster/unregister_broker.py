"""UnregisterBroker (64): remove a broker that will not return."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.forwarding import controller_api
from ottla.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from ottla.broker.api.declaration import DecisionContext
    from ottla.controller.controller import Controller
    from ottla.machines.outcome import Outcome
    from ottla.protocol.messages.unregister_broker_request import UnregisterBrokerRequest


def decide(controller: Controller, message: UnregisterBrokerRequest, context: DecisionContext) -> Outcome:
    return controller.decide_unregister_broker(message, context.now_ms)


API = controller_api(ApiKey.UNREGISTER_BROKER, decide=decide)
