"""DescribeLogDirs (35): the partitions in each log directory, their sizes, and the free space."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ottla.broker.api.declaration import ApiDeclaration
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from ottla.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.replicas.partition_table import PartitionTable
    from ottla.storage.manager.log_manager import LogManager
    from ottla.storage.manager.managed_dir import ManagedDir


def create(parts: ApiParts) -> Handler:
    partitions, logs = parts.partitions, parts.logs
    return lambda _, message: describe(partitions, logs, message)


def describe(
    partitions: PartitionTable, logs: LogManager, message: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    requested: set[tuple[str, int]] | None = None
    if message.topics is not None:
        requested = {(topic.topic, index) for topic in message.topics for index in topic.partitions}
    by_dir: dict[str, dict[str, list[DescribeLogDirsPartition]]] = defaultdict(lambda: defaultdict(list))
    for partition in partitions:
        if requested is None or (partition.topic, partition.index) in requested:
            by_dir[partition.log.log_dir.path][partition.topic].append(
                DescribeLogDirsPartition(
                    partition_index=partition.index, partition_size=partition.log.size_bytes
                )
            )
    return DescribeLogDirsResponse(
        results=[_result(logs, log_dir, by_dir[log_dir.path]) for log_dir in logs.dirs]
    )


def _result(
    logs: LogManager, log_dir: ManagedDir, topics: dict[str, list[DescribeLogDirsPartition]]
) -> DescribeLogDirsResult:
    if log_dir.error is not None:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=log_dir.path)
    return DescribeLogDirsResult(
        log_dir=log_dir.path,
        topics=[DescribeLogDirsTopic(name=name, partitions=found) for name, found in topics.items()],
        total_bytes=logs.total_bytes(log_dir),
        usable_bytes=logs.free_bytes(log_dir),
    )


API = ApiDeclaration(ApiKey.DESCRIBE_LOG_DIRS, create)
