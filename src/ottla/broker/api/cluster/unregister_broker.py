"""UnregisterBroker (64): remove a broker that will not return."""

from __future__ import annotations

from ottla.broker.api.forwarding import controller_api
from ottla.controller.brokers.registration import decide_unregister_broker
from ottla.protocol.api_keys import ApiKey

API = controller_api(ApiKey.UNREGISTER_BROKER, decide=decide_unregister_broker)
