"""Decides on AlterConfigs and IncrementalAlterConfigs, for topics, brokers and groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ottla.config.broker import broker_properties
from ottla.config.definitions import ConfigError, is_number
from ottla.config.resource_types import resource_type_name
from ottla.config.topic import TOPIC_PROPERTIES
from ottla.config.topic_config import check_dynamic_broker_config, check_topic_configs, is_list
from ottla.controller.context import Context
from ottla.controller.image.cluster import RESOURCE_BROKER, RESOURCE_GROUP, RESOURCE_TOPIC
from ottla.controller.partitions.change import Changes
from ottla.controller.partitions.min_isr import check_min_isr_change, elr_after
from ottla.controller.partitions.unclean_elections import elections_after
from ottla.controller.refusal import Refusal
from ottla.controller.topics.names import check_topic_name
from ottla.machines.outcome import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.alter_configs_request import AlterConfigsRequest
from ottla.protocol.messages.alter_configs_response import AlterConfigsResourceResponse, AlterConfigsResponse
from ottla.protocol.messages.config_record import ConfigRecord
from ottla.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from ottla.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse as IncrementalResourceResponse,
)
from ottla.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse

VALUE_CHARS_MAX = 32767
SET, DELETE, APPEND, SUBTRACT = range(4)


def decide_alter_configs(context: Context, request: AlterConfigsRequest) -> Outcome[AlterConfigsResponse]:
    """The request replaces everything that is set on the resource."""
    (records, elections), answers = _each_resource(context, request.resources, _replaced)
    reply = AlterConfigsResponse(responses=[AlterConfigsResourceResponse(**answer) for answer in answers])
    return Outcome(reply) if request.validate_only else Outcome(reply, records=records, effects=elections)


def decide_incremental_alter_configs(
    context: Context, request: IncrementalAlterConfigsRequest
) -> Outcome[IncrementalAlterConfigsResponse]:
    """Single properties are set, removed, or have items added to or taken from their list."""
    (records, elections), answers = _each_resource(context, request.resources, _changed)
    reply = IncrementalAlterConfigsResponse(
        responses=[IncrementalResourceResponse(**answer) for answer in answers]
    )
    return Outcome(reply) if request.validate_only else Outcome(reply, records=records, effects=elections)


def _each_resource(
    context: Context, resources: list[Any], new_values: Any
) -> tuple[Changes, list[dict[str, Any]]]:
    named = Counter((each.resource_type, each.resource_name) for each in resources)
    records: list[Message] = []
    answers: list[dict[str, Any]] = []
    accepted: dict[tuple[int, str], dict[str, str]] = {}
    for resource in resources:
        resource_type, name = resource.resource_type, resource.resource_name
        code, message = ErrorCode.NONE, None
        try:
            if named[resource_type, name] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            _check_request(resource)
            _check_resource_name(resource_type, name)
            before = context.image.configs.get((resource_type, name), {})
            after = new_values(context, resource, before)
            _check_values(context, resource_type, name, before, after)
            _check_exists(context, resource_type, name)
            check_min_isr_change(context, resource_type, name, before, after)
            accepted[resource_type, name] = after
            records += _config_records(resource, before, after)
        except Refusal as refusal:
            code, message = refusal.code, refusal.message
        answers.append(
            {
                "error_code": code,
                "error_message": message,
                "resource_type": resource_type,
                "resource_name": name,
            }
        )
    elected, unclean = elections_after(context, accepted)
    return (records + elr_after(context, accepted) + elected, unclean), answers


def _check_request(resource: Any) -> None:
    names = Counter(config.name for config in resource.configs)
    twice = [name for name, times in names.items() if times > 1]
    if twice:
        text = f"Each property must appear at most once: {','.join(twice)}"
        raise Refusal(ErrorCode.INVALID_REQUEST, text)
    nulls = [
        config.name
        for config in resource.configs
        if config.value is None and getattr(config, "config_operation", SET) != DELETE
    ]
    if nulls:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for: {','.join(nulls)}")


def _check_resource_name(resource_type: int, name: str) -> None:
    if resource_type == RESOURCE_TOPIC:
        if not name:
            raise Refusal(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        check_topic_name(name)
    elif resource_type == RESOURCE_BROKER:
        if name and not is_number(name, 10):
            text = f"Broker id must be a number, or empty for all brokers, but it is: {name}"
            raise Refusal(ErrorCode.INVALID_REQUEST, text)
    elif resource_type == RESOURCE_GROUP:
        if not name:
            raise Refusal(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    else:
        kind = resource_type_name(resource_type)
        text = f"Resource type {kind} cannot be altered; TOPIC, BROKER and GROUP can."
        raise Refusal(ErrorCode.INVALID_REQUEST, text)


def _check_exists(context: Context, resource_type: int, name: str) -> None:
    if resource_type == RESOURCE_TOPIC and name not in context.image.topics_by_name:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name}.")
    if resource_type == RESOURCE_BROKER and name and int(name) not in context.image.brokers:
        raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"There is no broker {name}.")


def _replaced(context: Context, resource: Any, before: Mapping[str, str]) -> dict[str, str]:
    return {config.name: config.value for config in resource.configs}


def _changed(context: Context, resource: Any, before: Mapping[str, str]) -> dict[str, str]:
    after = dict(before)
    for config in resource.configs:
        operation = config.config_operation
        if operation == SET:
            after[config.name] = config.value
        elif operation == DELETE:
            after.pop(config.name, None)
        elif operation in (APPEND, SUBTRACT):
            after[config.name] = _edited_list(context, resource.resource_type, config, after.get(config.name))
        else:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Unknown operation {operation} for {config.name}.")
    return after


def _edited_list(context: Context, resource_type: int, config: Any, current: str | None) -> str:
    broker = resource_type == RESOURCE_BROKER
    if not is_list(config.name, broker):
        verb = "append to" if config.config_operation == APPEND else "subtract from"
        raise Refusal(ErrorCode.INVALID_CONFIG, f"Can't {verb} {config.name}, which is not a list.")
    if current is None:
        layers = context.layers()
        if broker:
            current = broker_properties()[config.name].show(layers.broker_value(config.name)) or ""
        else:
            current = TOPIC_PROPERTIES[config.name].show(layers.topic_defaults()[config.name]) or ""
    items = [item for item in current.split(",") if item]
    edits = [item.strip() for item in config.value.split(",") if item.strip()]
    if config.config_operation == APPEND:
        items += [item for item in dict.fromkeys(edits) if item not in items]
    else:
        items = [item for item in items if item not in edits]
    return ",".join(items)


def _check_values(
    context: Context, resource_type: int, name: str, before: Mapping[str, str], after: Mapping[str, str]
) -> None:
    for key, value in after.items():
        if len(value.encode()) > VALUE_CHARS_MAX:
            text = f"The value of {key} is longer than {VALUE_CHARS_MAX} bytes."
            raise Refusal(ErrorCode.INVALID_CONFIG, text)
    try:
        if resource_type == RESOURCE_TOPIC:
            check_topic_configs(after, context.layers().topic_defaults())
            return
        if resource_type == RESOURCE_GROUP:
            from ottla.config.group_config import check_group_configs

            check_group_configs(after, context.layers())
            return
        for key, value in after.items():
            if before.get(key) != value:  # values accepted earlier are not validated again
                check_dynamic_broker_config(key, value, cluster_wide=not name)
    except ConfigError as error:
        # Kafka's brokers refuse their own properties as a bad request, and topics' as a bad configuration.
        broker = resource_type == RESOURCE_BROKER
        raise Refusal(ErrorCode.INVALID_REQUEST if broker else ErrorCode.INVALID_CONFIG, str(error)) from None


def _config_records(resource: Any, before: Mapping[str, str], after: Mapping[str, str]) -> list[Message]:
    def record(name: str, value: str | None) -> Message:
        return ConfigRecord(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            name=name,
            value=value,
        )

    changed = [record(name, value) for name, value in after.items() if before.get(name) != value]
    return changed + [record(name, None) for name in before if name not in after]
