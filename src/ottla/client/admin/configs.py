"""Configs of topics and brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.client.admin.types import RESOURCE_BROKER, RESOURCE_TOPIC, ConfigEntry
from ottla.client.aio.cluster import ClusterClient
from ottla.client.core.negotiation import Negotiated
from ottla.client.errors import raise_for
from ottla.protocol.messages import describe_configs_request, incremental_alter_configs_request
from ottla.protocol.messages.describe_configs_response import DescribeConfigsResponse
from ottla.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from ottla.protocol.versions import DESCRIBE_CONFIGS_DOCUMENTATION_SINCE

OPERATION_SET = 0
OPERATION_DELETE = 1


class ConfigAdmin:
    """Changes and describes configs."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def describe_topic_configs(
        self, names: Sequence[str], keys: Sequence[str] | None = None, *, documentation: bool = False
    ) -> dict[str, list[ConfigEntry]]:
        """The configs of topics, defaults included, by topic."""
        return await self._describe_configs(RESOURCE_TOPIC, names, keys, documentation)

    async def describe_broker_configs(
        self, node_id: int, keys: Sequence[str] | None = None, *, documentation: bool = False
    ) -> list[ConfigEntry]:
        """The configs of one broker, as that broker reports them."""
        name = str(node_id)
        return (await self._describe_configs(RESOURCE_BROKER, [name], keys, documentation))[name]

    async def _describe_configs(
        self, kind: int, names: Sequence[str], keys: Sequence[str] | None, documentation: bool
    ) -> dict[str, list[ConfigEntry]]:
        wire = describe_configs_request

        def build(peer: Negotiated) -> describe_configs_request.DescribeConfigsRequest:
            request = wire.DescribeConfigsRequest(resources=resources)
            supported = peer.version_for(request.API_KEY) >= DESCRIBE_CONFIGS_DOCUMENTATION_SINCE
            request.include_documentation = documentation and supported
            return request

        resources = [
            wire.DescribeConfigsResource(
                resource_type=kind,
                resource_name=name,
                configuration_keys=None if keys is None else list(keys),
            )
            for name in names
        ]
        if kind == RESOURCE_BROKER:
            response = await self._cluster.ask_node(int(names[0]), build, DescribeConfigsResponse)
        else:
            response = await self._cluster.ask_any(build, DescribeConfigsResponse)
        for row in response.results:
            topic = row.resource_name if kind == RESOURCE_TOPIC else None
            raise_for(row.error_code, topic=topic, detail=row.error_message)
        return {
            row.resource_name: [
                ConfigEntry(
                    entry.name,
                    entry.value,
                    entry.config_source,
                    entry.read_only,
                    entry.is_sensitive,
                    entry.documentation,
                )
                for entry in row.configs
            ]
            for row in response.results
        }

    async def alter_topic_configs(
        self,
        topic: str,
        *,
        values: Mapping[str, str] | None = None,
        unset: Iterable[str] = (),
        validate_only: bool = False,
    ) -> None:
        """Set some configs of a topic and reset others to their default; the rest is unchanged."""
        await self._alter_configs(RESOURCE_TOPIC, topic, dict(values or {}), list(unset), validate_only)

    async def alter_broker_configs(
        self, node_id: int, *, values: Mapping[str, str] | None = None, unset: Iterable[str] = ()
    ) -> None:
        """Set dynamic configs of one broker."""
        await self._alter_configs(RESOURCE_BROKER, str(node_id), dict(values or {}), list(unset), False)

    async def _alter_configs(
        self, kind: int, name: str, values: dict[str, str], unset: list[str], validate_only: bool
    ) -> None:
        wire = incremental_alter_configs_request
        changes = [
            wire.AlterableConfig(name=key, config_operation=OPERATION_SET, value=value)
            for key, value in values.items()
        ]
        changes += [
            wire.AlterableConfig(name=key, config_operation=OPERATION_DELETE, value=None) for key in unset
        ]
        request = wire.IncrementalAlterConfigsRequest(
            resources=[wire.AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)],
            validate_only=validate_only,
        )
        if kind == RESOURCE_BROKER:
            response = await self._cluster.ask_node(int(name), request, IncrementalAlterConfigsResponse)
        else:
            response = await self._cluster.ask_controller(request, IncrementalAlterConfigsResponse)
        for row in response.responses:
            topic = name if kind == RESOURCE_TOPIC else None
            raise_for(row.error_code, topic=topic, detail=row.error_message)
