"""ListConfigResources (74): the resources that have a configuration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.broker.api.declaration import ApiDeclaration
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from ottla.protocol.messages.list_config_resources_response import ConfigResource, ListConfigResourcesResponse
from ottla.protocol.versions import LIST_CONFIG_RESOURCES_TYPES_SINCE

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request
    from ottla.controller.image.cluster import ClusterImage

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
ALL_TYPES = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def create(parts: ApiParts) -> Handler:
    metadata = parts.metadata
    return lambda request, message: list_resources(metadata.image, request, message)


def list_resources(
    image: ClusterImage, request: Request, message: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    requested: Iterable[int] = (CLIENT_METRICS,)  # version 0 lists client metrics only
    if request.version >= LIST_CONFIG_RESOURCES_TYPES_SINCE:
        requested = message.resource_types or ALL_TYPES
    if not set(requested) <= set(ALL_TYPES):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    brokers = [str(node_id) for node_id in image.brokers]
    names = {
        TOPIC: list(image.topics_by_name),
        BROKER: brokers,
        BROKER_LOGGER: brokers,
        CLIENT_METRICS: _configured(image, CLIENT_METRICS),
        GROUP: _configured(image, GROUP),
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in dict.fromkeys(requested)
            for name in names[kind]
        ]
    )


def _configured(image: ClusterImage, kind: int) -> list[str]:
    return [name for resource_type, name in image.configs if resource_type == kind]


API = ApiDeclaration(ApiKey.LIST_CONFIG_RESOURCES, create)
