"""Topics and partitions: create, describe, delete; their records and sizes on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from ottla.client.admin.types import CreatedTopic, LogDirInfo, NewTopic, ReplicaSize
from ottla.client.aio.cluster import ClusterClient
from ottla.client.aio.pause import pause
from ottla.client.clock import backoff_between, deadline_in
from ottla.client.core.metadata import TopicInfo
from ottla.client.core.negotiation import Negotiated
from ottla.client.core.offsets import EARLIEST, LATEST
from ottla.client.errors import broker_error, raise_for
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import create_partitions_request, create_topics_request, delete_records_request
from ottla.protocol.messages.create_partitions_response import CreatePartitionsResponse
from ottla.protocol.messages.create_topics_response import CreateTopicsResponse
from ottla.protocol.messages.delete_records_response import DeleteRecordsResponse
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.delete_topics_response import DeleteTopicsResponse
from ottla.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse, DescribeLogDirsResult
from ottla.protocol.versions import DELETE_TOPICS_TOPIC_IDS_SINCE


class TopicAdmin:
    """Changes and describes topics."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int = 30_000
    ) -> list[CreatedTopic]:
        """Create topics. Raises the error of the first that could not be created; the others are created."""
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
        response = await self._cluster.ask_controller(request, CreateTopicsResponse)
        for row in response.topics:
            self._cluster.view.forget(row.name)
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
        deadline = deadline_in(timeout_ms)
        backoff = backoff_between(5, 250)
        while True:
            errors = await self._cluster.refresh([name])
            info = self._cluster.view.topics.get(name)
            led = [row for row in info.partitions.values() if row.leader >= 0] if info is not None else []
            if info is not None and len(led) == len(info.partitions) >= partitions:
                return info
            if deadline.passed:
                raise broker_error(errors.get(name, ErrorCode.LEADER_NOT_AVAILABLE), topic=name)
            await pause(backoff, deadline)

    async def list_topics(self, *, include_internal: bool = False) -> list[TopicInfo]:
        """Every topic, by name."""
        await self._cluster.retrying(lambda: self._cluster.refresh(None))
        topics = self._cluster.view.topics
        return [topics[name] for name in sorted(topics) if include_internal or not topics[name].is_internal]

    async def describe_topics(self, names: Sequence[str]) -> list[TopicInfo]:
        """The current metadata of topics. Raises UnknownTopicError for the first that does not exist."""
        errors = await self._cluster.retrying(lambda: self._cluster.refresh(names))
        for name in names:
            raise_for(errors.get(name, 0), topic=name)
        return [await self._cluster.topic(name) for name in names]

    async def delete_topics(self, names: Sequence[str], *, timeout_ms: int = 30_000) -> None:
        """Delete topics. Raises the error of the first that could not be deleted; the others are deleted."""

        def build(peer: Negotiated) -> DeleteTopicsRequest:
            request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=timeout_ms)
            if peer.version_for(request.API_KEY) >= DELETE_TOPICS_TOPIC_IDS_SINCE:
                request.topics = [DeleteTopicState(name=name) for name in names]
            return request

        response = await self._cluster.ask_controller(build, DeleteTopicsResponse)
        for name in names:
            self._cluster.view.forget(name)
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
        response = await self._cluster.ask_controller(request, CreatePartitionsResponse)
        self._cluster.view.forget(topic)
        for row in response.results:
            raise_for(row.error_code, topic=row.name, detail=row.error_message)

    async def delete_records(
        self, topic: str, before: Mapping[int, int], *, timeout_ms: int = 30_000
    ) -> dict[int, int]:
        """Delete the records below an offset (-1: all) of each partition; returns the new start offsets."""
        wire = delete_records_request

        async def attempt() -> dict[int, int]:
            starts: dict[int, int] = {}
            leaders = await self._cluster.leaders_of((topic, partition) for partition in before)
            for node_id, owned in leaders.items():
                rows = [
                    wire.DeleteRecordsPartition(partition_index=partition, offset=before[partition])
                    for _, partition in owned
                ]
                request = wire.DeleteRecordsRequest(
                    topics=[wire.DeleteRecordsTopic(name=topic, partitions=rows)], timeout_ms=timeout_ms
                )
                response = await self._cluster.ask_node(node_id, request, DeleteRecordsResponse)
                for result in response.topics[0].partitions if response.topics else []:
                    raise_for(result.error_code, topic=topic, partition=result.partition_index)
                    starts[result.partition_index] = result.low_watermark
            return starts

        return await self._cluster.retrying(attempt)

    async def describe_log_dirs(self, topics: Mapping[str, Sequence[int]] | None = None) -> list[LogDirInfo]:
        """The log directories of every broker with the sizes of these partitions (None: of all)."""
        rows = None
        if topics is not None:
            rows = [
                DescribableLogDirTopic(topic=topic, partitions=list(partitions))
                for topic, partitions in topics.items()
            ]
        if not self._cluster.view.nodes:
            await self._cluster.refresh([])
        request = DescribeLogDirsRequest(topics=rows)
        node_ids = sorted(self._cluster.view.nodes)
        answers = await asyncio.gather(
            *(self._cluster.ask_node(node_id, request, DescribeLogDirsResponse) for node_id in node_ids)
        )
        found = []
        for node_id, answer in zip(node_ids, answers, strict=True):
            raise_for(answer.error_code, detail=f"broker {node_id} refused to describe its log directories")
            found += [_log_dir(node_id, row) for row in answer.results]
        return found

    async def offsets_of(self, topic: str) -> dict[int, tuple[int, int]]:
        """The earliest and the latest offset of every partition."""
        info = await self._cluster.topic(topic)
        keys = [(topic, partition) for partition in info.partitions]
        earliest = await self._cluster.list_offsets(dict.fromkeys(keys, EARLIEST))
        latest = await self._cluster.list_offsets(dict.fromkeys(keys, LATEST))
        return {
            partition: (earliest[key].offset, latest[key].offset) for key in keys for partition in key[1:]
        }


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
