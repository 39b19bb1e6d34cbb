"""ListConfigResources (74): which resources have a configuration of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from ottla.protocol.messages.list_config_resources_response import ConfigResource, ListConfigResourcesResponse

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node

API_KEY = 74
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
ALL_TYPES = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def handle(
    broker: Node, request: Request, message: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    # Version 0 asks for client metrics alone.
    wanted = (message.resource_types or ALL_TYPES) if request.version > 0 else (CLIENT_METRICS,)
    if not set(wanted) <= set(ALL_TYPES):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    brokers = [str(node_id) for node_id in broker.image.brokers]
    names = {
        TOPIC: list(broker.image.topics_by_name),
        BROKER: brokers,
        BROKER_LOGGER: brokers,
        CLIENT_METRICS: _named(broker, CLIENT_METRICS),
        GROUP: _named(broker, GROUP),
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in dict.fromkeys(wanted)
            for name in names[kind]
        ]
    )


def _named(broker: Node, kind: int) -> list[str]:
    return [name for resource_type, name in broker.image.configs if resource_type == kind]
