"""ListOffsets: the first, the last, or the first offset at or after a point in time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.client.admin.types import OffsetAt
from ottla.client.errors import raise_for
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.list_offsets_response import ListOffsetsResponse

if TYPE_CHECKING:
    from ottla.client.aio.cluster import ClusterClient

EARLIEST = -2
LATEST = -1
MAX_TIMESTAMP = -3

TopicPartition = tuple[str, int]


class OffsetQueries:
    """Shared by admin and consumer."""

    cluster: ClusterClient

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAt]:
        """For each (topic, partition) the offset at a timestamp in ms, EARLIEST, LATEST or MAX_TIMESTAMP.

        Asks the leaders; offset -1 means that no record is as late as the timestamp. With `read_committed` a
        partition ends where its first open transaction begins.
        """
        found: dict[TopicPartition, OffsetAt] = {}

        async def attempt() -> None:
            missing = [key for key in wanted if key not in found]
            leaders = await self.cluster.leaders_of(missing)
            answers = await asyncio.gather(
                *(
                    self._ask_offsets(node_id, {key: wanted[key] for key in keys}, read_committed)
                    for node_id, keys in leaders.items()
                )
            )
            for response in answers:
                for topic in response.topics:
                    for row in topic.partitions:
                        raise_for(row.error_code, topic=topic.name, partition=row.partition_index)
                        key = (topic.name, row.partition_index)
                        found[key] = OffsetAt(row.offset, row.timestamp, row.leader_epoch)

        await self.cluster.retrying(attempt)
        return found

    async def _ask_offsets(
        self, node_id: int, wanted: Mapping[TopicPartition, int], read_committed: bool
    ) -> ListOffsetsResponse:
        rows: dict[str, list[ListOffsetsPartition]] = {}
        for (topic, partition), timestamp in wanted.items():
            row = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
            rows.setdefault(topic, []).append(row)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(read_committed),
            topics=[
                ListOffsetsTopic(name=topic, partitions=partitions) for topic, partitions in rows.items()
            ],
        )
        return await self.cluster.ask_node(node_id, request, ListOffsetsResponse)
