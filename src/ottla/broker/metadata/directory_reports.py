"""Reports to the controller which log directory holds each replica (AssignReplicasToDirs).

A broker with one directory reports nothing: the controller knows. With several the broker chooses, and when a
directory fails the controller has to know which leaders and in-sync replicas were in it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.broker.background import cancel
from ottla.broker.metadata.controller_channel import ControllerUnreachable
from ottla.controller.partitions.directories import directory_of
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
    from ottla.broker.background import BackgroundTasks
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata.controller_channel import ControllerChannel
    from ottla.broker.replicas.partition import Partition
    from ottla.controller.image.parts import PartitionImage
    from ottla.storage.manager.log_manager import LogManager

RETRY_SECONDS = 0.5
REPLICAS_PER_REPORT = 2000

log = logging.getLogger("ottla.directories")


class DirectoryReports:
    def __init__(
        self, identity: NodeIdentity, logs: LogManager, controller: ControllerChannel, tasks: BackgroundTasks
    ) -> None:
        self._identity = identity
        self._logs = logs
        self._controller = controller
        self._tasks = tasks
        self._wanted: dict[tuple[bytes, int], bytes] = {}
        self._task: asyncio.Task[None] | None = None

    def hosted(self, partition: Partition, state: PartitionImage) -> None:
        """Report the directory of a hosted replica unless the metadata have it."""
        if len(self._logs.dirs) == 1:
            return
        place = partition.log.log_dir
        key = (partition.topic_id, partition.index)
        directory_id = place.meta.directory_id if isinstance(place, ManagedDir) and place.meta else None
        if directory_id is None or directory_of(state, self._identity.node_id) == directory_id:
            self._wanted.pop(key, None)
            return
        self._wanted[key] = directory_id
        if self._task is None or self._task.done():
            self._task = self._tasks.run_to_end("directories", self._report)

    async def stop(self) -> None:
        await cancel(self._task)

    async def _report(self) -> None:
        """Send reports until all are accepted; `hosted` drops entries that the metadata confirm."""
        await asyncio.sleep(0)  # report together what is published together
        while self._wanted:
            batch = dict(list(self._wanted.items())[:REPLICAS_PER_REPORT])
            try:
                response = await self._controller.ask(_request(self._identity, batch))
                if response.error_code:
                    log.warning("directories not reported: %s", ErrorCode(response.error_code).name)
                else:
                    for key, directory_id in batch.items():
                        if self._wanted.get(key) == directory_id:
                            del self._wanted[key]
                    continue
            except (ControllerUnreachable, StorageError) as error:
                log.warning("directories not reported: %s", error)
            await asyncio.sleep(RETRY_SECONDS)


def _request(identity: NodeIdentity, wanted: dict[tuple[bytes, int], bytes]) -> AssignReplicasToDirsRequest:
    directories: dict[bytes, dict[bytes, TopicData]] = {}
    for (topic_id, index), directory_id in wanted.items():
        topics = directories.setdefault(directory_id, {})
        topic = topics.setdefault(topic_id, TopicData(topic_id=topic_id))
        topic.partitions.append(PartitionData(partition_index=index))
    return AssignReplicasToDirsRequest(
        broker_id=identity.node_id,
        broker_epoch=identity.broker_epoch,
        directories=[
            DirectoryData(id=directory_id, topics=list(topics.values()))
            for directory_id, topics in directories.items()
        ],
    )
