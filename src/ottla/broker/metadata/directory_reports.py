"""Tells the controller in which of several log directories this broker keeps its replicas.

A broker with one directory has nothing to tell: the controller knows. With several the broker chooses, and
when a directory fails the controller has to know whose leaders and in-sync replicas went with it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.broker.metadata.controller_channel import ControllerUnreachable
from ottla.controller.directories import directory_of
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from ottla.storage.errors import StorageError
from ottla.storage.manager.managed_dir import ManagedDir

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.broker.replicas.partition import Partition
    from ottla.controller.image_parts import PartitionImage

RETRY_SECONDS = 0.5
REPLICAS_PER_REPORT = 2000

log = logging.getLogger("ottla.directories")


class DirectoryReports:
    def __init__(self, broker: Node) -> None:
        self._broker = broker
        self._wanted: dict[tuple[bytes, int], bytes] = {}
        self._task: asyncio.Task[None] | None = None

    def hosted(self, partition: Partition, state: PartitionImage) -> None:
        """A replica is here: does the metadata know where?"""
        broker = self._broker
        if len(broker.logs.dirs) == 1:
            return
        place = partition.log.log_dir
        key = (partition.topic_id, partition.index)
        directory_id = place.meta.directory_id if isinstance(place, ManagedDir) and place.meta else None
        if directory_id is None or directory_of(state, broker.node_id) == directory_id:
            self._wanted.pop(key, None)
            return
        self._wanted[key] = directory_id
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._report(), name="directories")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _report(self) -> None:
        """Until the metadata say what is so; an entry goes when `hosted` sees it there."""
        await asyncio.sleep(0)  # what is published together is reported together
        while self._wanted:
            batch = dict(list(self._wanted.items())[:REPLICAS_PER_REPORT])
            try:
                answer = await self._broker.controller.ask(_request(self._broker, batch))
                if answer.error_code:
                    log.warning("directories not reported: %s", ErrorCode(answer.error_code).name)
                else:
                    for key, directory_id in batch.items():
                        if self._wanted.get(key) == directory_id:
                            del self._wanted[key]
                    continue
            except (ControllerUnreachable, StorageError) as error:
                log.warning("directories not reported: %s", error)
            await asyncio.sleep(RETRY_SECONDS)


def _request(broker: Node, wanted: dict[tuple[bytes, int], bytes]) -> AssignReplicasToDirsRequest:
    directories: dict[bytes, dict[bytes, TopicData]] = {}
    for (topic_id, index), directory_id in wanted.items():
        topics = directories.setdefault(directory_id, {})
        topic = topics.setdefault(topic_id, TopicData(topic_id=topic_id))
        topic.partitions.append(PartitionData(partition_index=index))
    return AssignReplicasToDirsRequest(
        broker_id=broker.node_id,
        broker_epoch=broker.broker_epoch,
        directories=[
            DirectoryData(id=directory_id, topics=list(topics.values()))
            for directory_id, topics in directories.items()
        ],
    )
