"""DescribeLogDirs (35): which directory holds which partition, how large they are, and how much room is left."""

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
    from ottla.broker.broker import Broker
    from ottla.broker.connection import Request

API_KEY = 35


def handle(broker: Broker, request: Request, message: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    wanted: set[tuple[str, int]] | None = None
    if message.topics is not None:
        wanted = {(topic.topic, index) for topic in message.topics for index in topic.partitions}
    by_dir: dict[str, dict[str, list[DescribeLogDirsPartition]]] = defaultdict(lambda: defaultdict(list))
    for partition in broker.partitions:
        if wanted is None or (partition.topic, partition.index) in wanted:
            by_dir[broker.logs.directory_of(partition.log)][partition.topic].append(
                DescribeLogDirsPartition(partition_index=partition.index, partition_size=partition.log.size_bytes)
            )
    return DescribeLogDirsResponse(results=[_result(broker, path, by_dir[path]) for path in broker.logs.directories])


def _result(
    broker: Broker, path: str, topics: dict[str, list[DescribeLogDirsPartition]]
) -> DescribeLogDirsResult:
    if broker.logs.is_offline(path):
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
    total_bytes, usable_bytes = broker.logs.space(path)
    return DescribeLogDirsResult(
        log_dir=path,
        topics=[DescribeLogDirsTopic(name=name, partitions=found) for name, found in topics.items()],
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )
