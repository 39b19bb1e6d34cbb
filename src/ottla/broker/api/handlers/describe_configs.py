"""DescribeConfigs (32): every property of a topic, broker or group, its value, and where that comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.cluster_view import topic_name_problem
from ottla.config.topic_config import ConfigEntry
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node

API_KEY = 32
TOPIC, BROKER, GROUP = 2, 4, 32


def handle(broker: Node, request: Request, message: DescribeConfigsRequest) -> DescribeConfigsResponse:
    # Asking the same again gives no second answer: that would outgrow the request a thousandfold.
    asked_once = {}
    for asked in message.resources:
        keys = None if asked.configuration_keys is None else tuple(asked.configuration_keys)
        asked_once[asked.resource_type, asked.resource_name, keys] = asked
    return DescribeConfigsResponse(
        results=[_describe(broker, message, asked) for asked in asked_once.values()]
    )


def _describe(
    broker: Node, message: DescribeConfigsRequest, asked: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=asked.resource_type, resource_name=asked.resource_name, error_message=None
    )
    entries = _entries(broker, asked, result)
    result.configs = [_entry(entry, message) for entry in entries]
    return result


def _entries(
    broker: Node, asked: DescribeConfigsResource, result: DescribeConfigsResult
) -> list[ConfigEntry]:
    name, keys = asked.resource_name, asked.configuration_keys
    if asked.resource_type == TOPIC:
        if name in broker.image.topics_by_name:
            return broker.layers.describe_topic(broker.image.topic_config(name), keys)
        problem = topic_name_problem(name)
        result.error_code = (
            ErrorCode.INVALID_TOPIC_EXCEPTION if problem else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        result.error_message = problem or f"there is no topic {name}"
    elif asked.resource_type == BROKER:
        if name == "":
            return _cluster_defaults(broker, keys)
        if name == str(broker.node_id):
            return broker.layers.describe_broker(keys)
        result.error_code = ErrorCode.INVALID_REQUEST
        result.error_message = f"this is broker {broker.node_id}: ask broker {name} for its configuration"
    elif asked.resource_type == GROUP and name:
        from ottla.config.group_config import describe_group

        return describe_group(broker.image.configs.get((GROUP, name), {}), broker.layers, keys)
    else:
        result.error_code = ErrorCode.INVALID_REQUEST
        result.error_message = (
            f"resource type {asked.resource_type} is not served; 2 (topic), 4 (broker) and 32 (group) are"
        )
    return []


def _cluster_defaults(broker: Node, keys: list[str] | None) -> list[ConfigEntry]:
    """Only what is set for all brokers: a broker's own answer shows the rest."""
    wanted = set(broker.image.cluster_config())
    return broker.layers.describe_broker(wanted if keys is None else wanted & set(keys))


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
