"""ControllerRegistration (70): a controller registers its endpoints and features."""

from __future__ import annotations

from ottla.broker.api.forwarding import controller_api
from ottla.controller.cluster.controller_registration import decide_register_controller
from ottla.protocol.api_keys import ApiKey

API = controller_api(ApiKey.CONTROLLER_REGISTRATION, decide=decide_register_controller)
