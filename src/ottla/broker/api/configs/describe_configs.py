"""DescribeConfigs (32): the properties of a topic, broker or group, their values and their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.cluster_view import topic_name_problem
from ottla.broker.api.declaration import ApiDeclaration
from ottla.config.resource_types import resource_type_name
from ottla.config.topic_config import ConfigEntry
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.net.request import Request
    from ottla.config.topic_config import ConfigLayers

TOPIC, BROKER, GROUP = 2, 4, 32


class DescribeConfigs:
    def __init__(self, identity: NodeIdentity, metadata: MetadataCache, layers: ConfigLayers) -> None:
        self._identity = identity
        self._metadata = metadata
        self._layers = layers

    def handle(self, request: Request, message: DescribeConfigsRequest) -> DescribeConfigsResponse:
        # A repeated resource is described once: the response could be a thousand times the request.
        resources = {}
        for resource in message.resources:
            keys = None if resource.configuration_keys is None else tuple(resource.configuration_keys)
            resources[resource.resource_type, resource.resource_name, keys] = resource
        return DescribeConfigsResponse(
            results=[self._describe(message, resource) for resource in resources.values()]
        )

    def _describe(
        self, message: DescribeConfigsRequest, resource: DescribeConfigsResource
    ) -> DescribeConfigsResult:
        result = DescribeConfigsResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
        )
        entries = self._entries(resource, result)
        result.configs = [_entry(entry, message) for entry in entries]
        return result

    def _entries(self, resource: DescribeConfigsResource, result: DescribeConfigsResult) -> list[ConfigEntry]:
        name, keys = resource.resource_name, resource.configuration_keys
        image, node_id = self._metadata.image, self._identity.node_id
        if resource.resource_type == TOPIC:
            if name in image.topics_by_name:
                return self._layers.describe_topic(image.topic_config(name), keys)
            problem = topic_name_problem(name)
            result.error_code = (
                ErrorCode.INVALID_TOPIC_EXCEPTION if problem else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            result.error_message = problem or f"there is no topic {name}"
        elif resource.resource_type == BROKER:
            if name == "":
                return self._cluster_defaults(keys)
            if name == str(node_id):
                return self._layers.describe_broker(keys)
            result.error_code = ErrorCode.INVALID_REQUEST
            result.error_message = f"this is broker {node_id}: send the request to broker {name}"
        elif resource.resource_type == GROUP and name:
            from ottla.config.group_config import describe_group

            return describe_group(image.configs.get((GROUP, name), {}), self._layers, keys)
        else:
            result.error_code = ErrorCode.INVALID_REQUEST
            kind = resource_type_name(resource.resource_type)
            result.error_message = f"resource type {kind} is not served; TOPIC, BROKER and GROUP (named) are"
        return []

    def _cluster_defaults(self, keys: list[str] | None) -> list[ConfigEntry]:
        """The cluster-wide dynamic values only; the description of a single broker has the rest."""
        wanted = set(self._metadata.image.cluster_config())
        return self._layers.describe_broker(wanted if keys is None else wanted & set(keys))


def _entry(entry: ConfigEntry, message: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    prop = entry.prop
    synonyms = []
    if message.include_synonyms:
        synonyms = [
            DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source)
            for each in entry.synonyms
        ]
    return DescribeConfigsResourceResult(
        name=prop.name,
        value=entry.value,
        read_only=prop.read_only,
        config_source=entry.source,
        is_sensitive=prop.sensitive,
        synonyms=synonyms,
        config_type=prop.kind,
        documentation=prop.doc if message.include_documentation else None,
    )


def create(parts: ApiParts) -> Handler:
    return DescribeConfigs(parts.identity, parts.metadata, parts.layers).handle


API = ApiDeclaration(ApiKey.DESCRIBE_CONFIGS, create)
