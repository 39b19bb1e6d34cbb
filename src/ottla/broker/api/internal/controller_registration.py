"""ControllerRegistration (70): a controller registers its endpoints and features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.forwarding import controller_api
from ottla.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from ottla.broker.api.declaration import DecisionContext
    from ottla.controller.controller import Controller
    from ottla.machines.outcome import Outcome
    from ottla.protocol.messages.controller_registration_request import ControllerRegistrationRequest


def decide(
    controller: Controller, message: ControllerRegistrationRequest, context: DecisionContext
) -> Outcome:
    return controller.decide_register_controller(message, context.now_ms)


API = controller_api(ApiKey.CONTROLLER_REGISTRATION, decide=decide)
