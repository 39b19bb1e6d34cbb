"""AllocateProducerIds (67): a broker gets a block of producer ids."""

from __future__ import annotations

from ottla.broker.api.forwarding import controller_api
from ottla.controller.cluster.producer_ids import decide_allocate_producer_ids
from ottla.protocol.api_keys import ApiKey

API = controller_api(ApiKey.ALLOCATE_PRODUCER_IDS, decide=decide_allocate_producer_ids)
