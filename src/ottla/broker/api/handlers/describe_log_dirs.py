"""DescribeLogDirs (35): which directory holds which partition, their sizes, and the room that is left."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from ottla.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node
    from ottla.storage.manager.managed_dir import ManagedDir

API_KEY = 35


def handle(broker: Node, request: Request, message: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    wanted: set[tuple[str, int]] | None = None
    if message.topics is not None:
        wanted = {(topic.topic, index) for topic in message.topics for index in topic.partitions}
    by_dir: dict[str, dict[str, list[DescribeLogDirsPartition]]] = defaultdict(lambda: defaultdict(list))
    for partition in broker.partitions:
        if wanted is None or (partition.topic, partition.index) in wanted:
            by_dir[partition.log.log_dir.path][partition.topic].append(
                DescribeLogDirsPartition(
                    partition_index=partition.index, partition_size=partition.log.size_bytes
                )
            )
    return DescribeLogDirsResponse(
        results=[_result(broker, log_dir, by_dir[log_dir.path]) for log_dir in broker.logs.dirs]
    )


def _result(
    broker: Node, log_dir: ManagedDir, topics: dict[str, list[DescribeLogDirsPartition]]
) -> DescribeLogDirsResult:
    if log_dir.error is not None:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=log_dir.path)
    return DescribeLogDirsResult(
        log_dir=log_dir.path,
        topics=[DescribeLogDirsTopic(name=name, partitions=found) for name, found in topics.items()],
        total_bytes=broker.logs.total_bytes(log_dir),
        usable_bytes=broker.logs.free_bytes(log_dir),
    )
