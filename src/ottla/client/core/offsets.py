"""ListOffsets: the first, the last, or the first offset at or after a point in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.client.core.cluster import ClusterCore, TopicPartition
from ottla.client.core.steps import Steps, together
from ottla.client.errors import raise_for
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.list_offsets_response import ListOffsetsResponse

EARLIEST = -2
LATEST = -1
MAX_TIMESTAMP = -3


class OffsetAt(NamedTuple):
    """The offset at a timestamp; -1 if no record is as late."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def list_offsets(
    cluster: ClusterCore, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> Steps[dict[TopicPartition, OffsetAt]]:
    """For each (topic, partition) the offset at a timestamp in ms, EARLIEST, LATEST or MAX_TIMESTAMP.

    Offset -1 means that no record is as late as the timestamp. With `read_committed`, LATEST is the last
    stable offset.
    """
    found: dict[TopicPartition, OffsetAt] = {}

    def ask(node_id: int, keys: Sequence[TopicPartition]) -> Steps[None]:
        request = _request({key: timestamps[key] for key in keys}, read_committed)
        response = yield from cluster.ask_node(node_id, request, ListOffsetsResponse)
        for topic in response.topics:
            for row in topic.partitions:
                raise_for(row.error_code, topic=topic.name, partition=row.partition_index)
                found[topic.name, row.partition_index] = OffsetAt(row.offset, row.timestamp, row.leader_epoch)

    def attempt() -> Steps[None]:
        leaders = yield from cluster.leaders_of([key for key in timestamps if key not in found])
        yield from together([ask(node_id, keys) for node_id, keys in leaders.items()])

    if timestamps:
        yield from cluster.retrying(attempt)
    return found


def _request(timestamps: Mapping[TopicPartition, int], read_committed: bool) -> ListOffsetsRequest:
    rows: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, partition), timestamp in timestamps.items():
        row = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        rows.setdefault(topic, []).append(row)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[ListOffsetsTopic(name=topic, partitions=partitions) for topic, partitions in rows.items()],
    )
