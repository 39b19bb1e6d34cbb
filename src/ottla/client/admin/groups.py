"""Consumer groups: members, assignments, committed offsets, lag."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from ottla.client.aio.cluster import ClusterClient
from ottla.client.aio.connection import Connection
from ottla.client.aio.coordinators import Coordinators
from ottla.client.core.group_offsets import commit_offsets, fetch_offsets
from ottla.client.core.group_types import (
    CommittedOffset,
    GroupInfo,
    GroupListing,
    PartitionLag,
    TopicPartition,
)
from ottla.client.core.group_wire import classic_group, consumer_group, partitions_by_topic
from ottla.client.core.negotiation import Negotiated
from ottla.client.core.offsets import EARLIEST, LATEST
from ottla.client.errors import (
    BrokerError,
    ClientError,
    GroupNotEmptyError,
    UnknownGroupError,
    UnsupportedApiError,
    broker_error,
    raise_for,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import offset_delete_request
from ottla.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.delete_groups_response import DeleteGroupsResponse
from ottla.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ottla.protocol.messages.describe_groups_response import DescribeGroupsResponse
from ottla.protocol.messages.list_groups_request import ListGroupsRequest
from ottla.protocol.messages.list_groups_response import ListGroupsResponse
from ottla.protocol.messages.offset_delete_response import OffsetDeleteResponse
from ottla.protocol.versions import LIST_GROUPS_STATES_SINCE, LIST_GROUPS_TYPES_SINCE

DEAD = "Dead"
# Requests in flight at once: enough to keep the brokers busy, too few to flood them.
AT_ONCE_MAX = 50
# How a group with members refuses commits of clients that are not members.
_MEMBERS_ONLY = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.REBALANCE_IN_PROGRESS,
)

Result = TypeVar("Result")


class GroupAdmin:
    """Lists, describes and changes consumer groups, of the classic protocol and of KIP-848's."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster
        self._coordinators = Coordinators(cluster)

    # Groups.

    async def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """The groups of the cluster by name, optionally only in these states and of these types.

        States are Kafka's ("Stable", "Empty", ...), types "classic" and "consumer"; case does not matter.
        """
        states, types = list(states), list(types)

        def build(peer: Negotiated) -> ListGroupsRequest:
            request = ListGroupsRequest()
            version = peer.version_for(request.API_KEY)
            if version >= LIST_GROUPS_STATES_SINCE:
                request.states_filter = states
            if version >= LIST_GROUPS_TYPES_SINCE:
                request.types_filter = types
            return request

        async def attempt(node_id: int) -> list[GroupListing]:
            response = await self._cluster.ask_node(node_id, build, ListGroupsResponse)
            raise_for(response.error_code, detail=f"broker {node_id} does not list its groups")
            return [
                GroupListing(
                    row.group_id, row.group_state, row.group_type.lower(), row.protocol_type, node_id
                )
                for row in response.groups
            ]

        await self._cluster.retrying(lambda: self._cluster.refresh([]))
        answers = await asyncio.gather(
            *(
                self._cluster.retrying(partial(attempt, node_id))
                for node_id in sorted(self._cluster.view.nodes)
            )
        )
        found = {row.group_id: row for rows in answers for row in rows}
        for row in found.values():
            self._coordinators.remember(row.group_id, row.coordinator)
        return [found[name] for name in sorted(found)]

    async def describe_groups(self, group_ids: Sequence[str], *, missing_ok: bool = False) -> list[GroupInfo]:
        """Members, assignments and state of groups of either type.

        Raises UnknownGroupError for the first that does not exist, unless `missing_ok` leaves it out.
        """

        async def describe(group_id: str) -> GroupInfo | None:
            try:
                return await self._describe(group_id)
            except UnknownGroupError:
                if missing_ok:
                    return None
                raise

        found = await self._each(group_ids, describe)
        return [group for group in found if group is not None]

    async def describe_group(self, group_id: str) -> GroupInfo:
        return await self._describe(group_id)

    async def delete_groups(self, group_ids: Sequence[str]) -> None:
        """Delete groups with their offsets. Raises the error of the first that could not be deleted.

        GroupNotEmptyError: it has members; UnknownGroupError: there is none.
        """

        async def attempt(group_id: str, connection: Connection) -> None:
            request = DeleteGroupsRequest(groups_names=[group_id])
            response = await self._cluster.ask(connection, request, DeleteGroupsResponse)
            for row in response.results:
                raise_for(row.error_code, group=group_id)

        async def delete(group_id: str) -> None:
            await self._coordinators.retrying(group_id, partial(attempt, group_id))

        await self._each(group_ids, delete)

    # Offsets.

    async def group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of a group in these partitions (None: in all that have one).

        A group that does not exist has none: the result is empty, as in Kafka.
        """
        return await self._cluster.run(fetch_offsets(self._coordinators.core, group_id, partitions))

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset | int]
    ) -> None:
        """Set the committed offsets of a group. Raises GroupNotEmptyError if it has members.

        A group that does not exist is created.
        """

        try:
            await self._cluster.run(commit_offsets(self._coordinators.core, group_id, offsets))
        except BrokerError as error:
            if error.code in _MEMBERS_ONLY:
                raise GroupNotEmptyError(ErrorCode.NON_EMPTY_GROUP, group=group_id) from error
            raise

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete the committed offsets of partitions that no member of the group reads."""
        wire = offset_delete_request
        request = wire.OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                wire.OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[wire.OffsetDeleteRequestPartition(partition_index=each) for each in numbers],
                )
                for topic, numbers in partitions_by_topic(partitions).items()
            ],
        )

        async def attempt(connection: Connection) -> None:
            response = await self._cluster.ask(connection, request, OffsetDeleteResponse)
            raise_for(response.error_code, group=group_id)
            for topic in response.topics:
                for row in topic.partitions:
                    raise_for(row.error_code, group=group_id, topic=topic.name, partition=row.partition_index)

        await self._coordinators.retrying(group_id, attempt)

    async def group_lag(
        self,
        group_id: str,
        *,
        members_read: Iterable[TopicPartition] = (),
        read_committed: bool = False,
    ) -> list[PartitionLag]:
        """The lag of a group by partition: those with a committed offset, and `members_read`.

        With `read_committed`, a partition ends at its last stable offset.
        """
        return (await self.group_lags({group_id: members_read}, read_committed=read_committed))[group_id]

    async def group_lags(
        self, groups: Mapping[str, Iterable[TopicPartition]], *, read_committed: bool = False
    ) -> dict[str, list[PartitionLag]]:
        """The same for several groups, with one request for the ends of all partitions."""
        names = list(groups)
        committed = dict(zip(names, await self._each(names, self.group_offsets), strict=True))
        keys = {name: sorted({*committed[name], *groups[name]}) for name in names}
        ends = await self.end_offsets({key for rows in keys.values() for key in rows}, read_committed)
        return {
            name: [_lag(key, committed[name].get(key), ends.get(key, -1)) for key in keys[name]]
            for name in names
        }

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        """The ends of partitions, without those that do not exist or have no leader."""
        return await self._edges(partitions, LATEST, read_committed)

    async def start_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offsets of partitions, without those that do not exist or have no leader."""
        return await self._edges(partitions, EARLIEST, False)

    async def _edges(
        self, partitions: Iterable[TopicPartition], edge: int, read_committed: bool
    ) -> dict[TopicPartition, int]:
        wanted = partitions_by_topic(partitions)
        await self._cluster.retrying(lambda: self._cluster.refresh(list(wanted)))
        there = {}
        for topic, numbers in wanted.items():
            info = self._cluster.view.topics.get(topic)
            for number in numbers:
                row = None if info is None else info.partitions.get(number)
                if row is not None and row.leader >= 0:
                    there[topic, number] = edge
        if not there:
            return {}
        found = await self._cluster.list_offsets(there, read_committed=read_committed)
        return {key: at.offset for key, at in found.items()}

    # Internal.

    async def _describe(self, group_id: str) -> GroupInfo:
        async def attempt(connection: Connection) -> GroupInfo:
            coordinator = await self._coordinators.find(group_id)
            try:
                modern = ConsumerGroupDescribeRequest(group_ids=[group_id], include_rebalances=True)
                response = await self._cluster.ask(connection, modern, ConsumerGroupDescribeResponse)
                (row,) = response.groups
                raise_for(row.error_code, group=group_id)
                return consumer_group(row, coordinator)
            except UnsupportedApiError:
                pass
            except BrokerError as error:
                if error.code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                    raise
            request = DescribeGroupsRequest(groups=[group_id], include_rebalances=True)
            answer = await self._cluster.ask(connection, request, DescribeGroupsResponse)
            (described,) = answer.groups
            raise_for(described.error_code, group=group_id)
            if described.group_state == DEAD:
                raise broker_error(ErrorCode.GROUP_ID_NOT_FOUND, group=group_id)
            return classic_group(described, coordinator)

        return await self._coordinators.retrying(group_id, attempt)

    async def _each(self, group_ids: Sequence[str], work: Callable[[str], Awaitable[Result]]) -> list[Result]:
        """Run `work` for all, a bounded number at a time; raise the first error when all are done."""
        results: list[Result] = []
        failed: ClientError | None = None
        for first in range(0, len(group_ids), AT_ONCE_MAX):
            names = group_ids[first : first + AT_ONCE_MAX]
            for result in await asyncio.gather(*(work(name) for name in names), return_exceptions=True):
                if isinstance(result, ClientError):
                    failed = failed or result
                elif isinstance(result, BaseException):
                    raise result
                else:
                    results.append(result)
        if failed is not None:
            raise failed
        return results


def _lag(key: TopicPartition, committed: CommittedOffset | None, end: int) -> PartitionLag:
    offset = -1 if committed is None else committed.offset
    lag = -1 if offset < 0 or end < 0 else max(0, end - offset)
    return PartitionLag(*key, offset, end, lag, None if committed is None else committed.metadata)
