"""BrokerRegistration (62): a broker registers and gets its epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.declaration import CONTROLLER, ApiDeclaration
from ottla.broker.api.forwarding import ForwardToController
from ottla.broker.api.refusal import refuse_whole
from ottla.controller.brokers.registration import decide_register_broker
from ottla.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from ottla.broker.api.declaration import DecisionPoint, Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.controller.context import Context
    from ottla.machines.outcome import Outcome
    from ottla.protocol.messages.broker_registration_request import BrokerRegistrationRequest
    from ottla.protocol.messages.broker_registration_response import BrokerRegistrationResponse


def decide(
    context: Context, message: BrokerRegistrationRequest, at: DecisionPoint
) -> Outcome[BrokerRegistrationResponse]:
    lost_contact = at.lost_contact(message.broker_id)
    return decide_register_broker(context, message, at.now_ms, at.next_offset, lost_contact=lost_contact)


def create(parts: ApiParts) -> Handler:
    return ForwardToController(API, parts.controller).handle


API = ApiDeclaration(
    ApiKey.BROKER_REGISTRATION, create, decided_by=CONTROLLER, decide=decide, refuse=refuse_whole
)
