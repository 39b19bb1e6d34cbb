"""BrokerRegistration (62): a broker registers and gets its epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.forwarding import controller_api
from ottla.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from ottla.broker.api.declaration import DecisionContext
    from ottla.controller.controller import Controller
    from ottla.machines.outcome import Outcome
    from ottla.protocol.messages.broker_registration_request import BrokerRegistrationRequest


def decide(controller: Controller, message: BrokerRegistrationRequest, context: DecisionContext) -> Outcome:
    return controller.decide_register_broker(
        message,
        context.now_ms,
        context.next_offset,
        lost_contact=context.lost_contact(message.broker_id),
    )


API = controller_api(ApiKey.BROKER_REGISTRATION, decide=decide)
