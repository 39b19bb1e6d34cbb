"""AllocateProducerIds (67): a broker gets a block of producer ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.forwarding import controller_api
from ottla.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from ottla.broker.api.declaration import DecisionContext
    from ottla.controller.controller import Controller
    from ottla.machines.outcome import Outcome
    from ottla.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest


def decide(controller: Controller, message: AllocateProducerIdsRequest, context: DecisionContext) -> Outcome:
    return controller.decide_allocate_producer_ids(message, context.now_ms)


API = controller_api(ApiKey.ALLOCATE_PRODUCER_IDS, decide=decide)
