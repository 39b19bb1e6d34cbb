"""The admin client: topics and partitions, their configs and sizes; groups, transactions and the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from ottla.client.admin.cluster import ClusterAdmin
from ottla.client.admin.groups import GroupAdmin
from ottla.client.admin.transactions import TransactionAdmin
from ottla.client.admin.types import (
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    ConfigEntry,
    CreatedTopic,
    LogDirInfo,
    NewTopic,
    ReplicaSize,
)
from ottla.client.core.metadata import TopicInfo
from ottla.client.core.offsets import EARLIEST, LATEST
from ottla.client.core.retry import Backoff, Deadline
from ottla.client.errors import broker_error, raise_for
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages import (
    create_partitions_request,
    create_topics_request,
    delete_records_request,
    describe_configs_request,
    incremental_alter_configs_request,
)
from ottla.protocol.messages.create_partitions_response import CreatePartitionsResponse
from ottla.protocol.messages.create_topics_response import CreateTopicsResponse
from ottla.protocol.messages.delete_records_response import DeleteRecordsResponse
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.delete_topics_response import DeleteTopicsResponse
from ottla.protocol.messages.describe_configs_response import DescribeConfigsResponse
from ottla.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse, DescribeLogDirsResult
from ottla.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse

OPERATION_SET = 0
OPERATION_DELETE = 1

Response = TypeVar("Response", bound=Message)


class Admin(GroupAdmin, TransactionAdmin, ClusterAdmin):
    """Changes and describes a cluster.

    async with Admin("localhost:9092") as admin:
        await admin.create_topics([NewTopic("orders", partitions=3)])
    """

    # Topics.

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int = 30_000
    ) -> list[CreatedTopic]:
        """Create topics. Raises the error of the first that could not be made; the others are made."""
        wire = create_topics_request
        request = wire.CreateTopicsRequest(
            topics=[
                wire.CreatableTopic(
                    name=topic.name,
                    num_partitions=-1 if topic.assignments else topic.partitions,
                    replication_factor=-1 if topic.assignments else topic.replication_factor,
                    assignments=[
                        wire.CreatableReplicaAssignment(partition_index=index, broker_ids=list(nodes))
                        for index, nodes in topic.assignments.items()
                    ],
                    configs=[wire.CreatableTopicConfig(name=k, value=v) for k, v in topic.configs.items()],
                )
                for topic in topics
            ],
            timeout_ms=timeout_ms,
            validate_only=validate_only,
        )
        response = await self._change(request, CreateTopicsResponse)
        for row in response.topics:
            self.cluster.view.forget(row.name)
        for row in response.topics:
            raise_for(row.error_code, topic=row.name, detail=row.error_message)
        return [
            CreatedTopic(row.name, row.topic_id, row.num_partitions, row.replication_factor)
            for row in response.topics
        ]

    async def wait_for_topic(
        self, name: str, partitions: int = 1, *, timeout_ms: float = 30_000
    ) -> TopicInfo:
        """Wait until a topic has that many partitions and each has a leader."""
        deadline = Deadline(timeout_ms)
        backoff = Backoff(5, 250)
        while True:
            errors = await self.cluster.refresh([name])
            info = self.cluster.view.topics.get(name)
            led = [row for row in info.partitions.values() if row.leader >= 0] if info is not None else []
            if info is not None and len(led) == len(info.partitions) >= partitions:
                return info
            if deadline.passed:
                raise broker_error(errors.get(name, ErrorCode.LEADER_NOT_AVAILABLE), topic=name)
            await backoff.pause(deadline)

    async def list_topics(self, *, include_internal: bool = False) -> list[TopicInfo]:
        """Every topic, by name."""
        await self.cluster.retrying(lambda: self.cluster.refresh(None))
        topics = self.cluster.view.topics
        return [topics[name] for name in sorted(topics) if include_internal or not topics[name].is_internal]

    async def describe_topics(self, names: Sequence[str]) -> list[TopicInfo]:
        """The topics as they are now. Raises UnknownTopicError for the first that does not exist."""
        errors = await self.cluster.retrying(lambda: self.cluster.refresh(names))
        for name in names:
            raise_for(errors.get(name, 0), topic=name)
        return [await self.cluster.topic(name) for name in names]

    async def delete_topics(self, names: Sequence[str], *, timeout_ms: int = 30_000) -> None:
        """Delete topics. Raises the error of the first that could not be deleted; the others are gone."""
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in names],
            topic_names=list(names),
            timeout_ms=timeout_ms,
        )
        connection = await self.cluster.controller_connection()
        if connection.version_for(request.API_KEY) < 6:
            request.topics = []
        response = await self.cluster.ask(connection, request, DeleteTopicsResponse)
        for name in names:
            self.cluster.view.forget(name)
        for row in response.responses:
            raise_for(row.error_code, topic=row.name, detail=row.error_message)

    async def create_partitions(
        self, topic: str, total: int, *, validate_only: bool = False, timeout_ms: int = 30_000
    ) -> None:
        """Raise the number of partitions of a topic to `total`."""
        wire = create_partitions_request
        request = wire.CreatePartitionsRequest(
            topics=[wire.CreatePartitionsTopic(name=topic, count=total, assignments=None)],
            timeout_ms=timeout_ms,
            validate_only=validate_only,
        )
        response = await self._change(request, CreatePartitionsResponse)
        self.cluster.view.forget(topic)
        for row in response.results:
            raise_for(row.error_code, topic=row.name, detail=row.error_message)

    # Configs.

    async def describe_topic_configs(
        self, names: Sequence[str], keys: Sequence[str] | None = None, *, documentation: bool = False
    ) -> dict[str, list[ConfigEntry]]:
        """The configs of topics, defaults included, by topic."""
        return await self._describe_configs(RESOURCE_TOPIC, names, keys, documentation)

    async def describe_broker_configs(
        self, node_id: int, keys: Sequence[str] | None = None, *, documentation: bool = False
    ) -> list[ConfigEntry]:
        """The configs of one broker, asked of that broker itself."""
        name = str(node_id)
        return (await self._describe_configs(RESOURCE_BROKER, [name], keys, documentation))[name]

    async def _describe_configs(
        self, kind: int, names: Sequence[str], keys: Sequence[str] | None, documentation: bool
    ) -> dict[str, list[ConfigEntry]]:
        wire = describe_configs_request
        request = wire.DescribeConfigsRequest(
            resources=[
                wire.DescribeConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configuration_keys=None if keys is None else list(keys),
                )
                for name in names
            ],
        )
        if kind == RESOURCE_BROKER:
            connection = await self.cluster.connection_to(int(names[0]))
        else:
            connection = await self.cluster.any_connection()
        request.include_documentation = documentation and connection.version_for(request.API_KEY) >= 3
        response = await self.cluster.ask(connection, request, DescribeConfigsResponse)
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
        """Set some configs of a topic and give others back to their default; what is not named stays."""
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
            response = await self.cluster.ask_node(int(name), request, IncrementalAlterConfigsResponse)
        else:
            response = await self._change(request, IncrementalAlterConfigsResponse)
        for row in response.responses:
            topic = name if kind == RESOURCE_TOPIC else None
            raise_for(row.error_code, topic=topic, detail=row.error_message)

    # Records and disks.

    async def delete_records(
        self, topic: str, before: Mapping[int, int], *, timeout_ms: int = 30_000
    ) -> dict[int, int]:
        """Delete what lies before an offset (-1: everything) of each partition; the new start offsets."""
        wire = delete_records_request

        async def attempt() -> dict[int, int]:
            starts: dict[int, int] = {}
            leaders = await self.cluster.leaders_of((topic, partition) for partition in before)
            for node_id, owned in leaders.items():
                rows = [
                    wire.DeleteRecordsPartition(partition_index=partition, offset=before[partition])
                    for _, partition in owned
                ]
                request = wire.DeleteRecordsRequest(
                    topics=[wire.DeleteRecordsTopic(name=topic, partitions=rows)], timeout_ms=timeout_ms
                )
                response = await self.cluster.ask_node(node_id, request, DeleteRecordsResponse)
                for result in response.topics[0].partitions if response.topics else []:
                    raise_for(result.error_code, topic=topic, partition=result.partition_index)
                    starts[result.partition_index] = result.low_watermark
            return starts

        return await self.cluster.retrying(attempt)

    async def describe_log_dirs(self, topics: Mapping[str, Sequence[int]] | None = None) -> list[LogDirInfo]:
        """The log directories of every broker with the sizes of these partitions (None: of all)."""
        rows = None
        if topics is not None:
            rows = [
                DescribableLogDirTopic(topic=topic, partitions=list(partitions))
                for topic, partitions in topics.items()
            ]
        if not self.cluster.view.nodes:
            await self.cluster.refresh([])
        request = DescribeLogDirsRequest(topics=rows)
        node_ids = sorted(self.cluster.view.nodes)
        answers = await asyncio.gather(
            *(self.cluster.ask_node(node_id, request, DescribeLogDirsResponse) for node_id in node_ids)
        )
        found = []
        for node_id, answer in zip(node_ids, answers, strict=True):
            raise_for(answer.error_code, detail=f"broker {node_id} refused to describe its log directories")
            found += [_log_dir(node_id, row) for row in answer.results]
        return found

    async def offsets_of(self, topic: str) -> dict[int, tuple[int, int]]:
        """The earliest and the latest offset of every partition."""
        info = await self.cluster.topic(topic)
        keys = [(topic, partition) for partition in info.partitions]
        earliest = await self.list_offsets(dict.fromkeys(keys, EARLIEST))
        latest = await self.list_offsets(dict.fromkeys(keys, LATEST))
        return {
            partition: (earliest[key].offset, latest[key].offset) for key in keys for partition in key[1:]
        }

    async def _change(self, request: Message, response: type[Response]) -> Response:
        return await self.cluster.ask_controller(request, response)


def _log_dir(node_id: int, row: DescribeLogDirsResult) -> LogDirInfo:
    replicas = [
        ReplicaSize(
            node_id,
            row.log_dir,
            topic.name,
            partition.partition_index,
            partition.partition_size,
            partition.offset_lag,
            partition.is_future_key,
        )
        for topic in row.topics
        for partition in topic.partitions
    ]
    return LogDirInfo(node_id, row.log_dir, row.error_code, row.total_bytes, row.usable_bytes, replicas)
