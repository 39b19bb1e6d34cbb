"""Committed offsets of a group: read and written by members, by lone consumers and by admins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from ottla.client.aio.connection import Connection
from ottla.client.core.retry import Backoff, Deadline
from ottla.client.errors import BrokerError, raise_for
from ottla.client.groups.types import CommittedOffset, TopicPartition
from ottla.client.groups.wire import commit_topics, partitions_by_topic
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import offset_fetch_request, offset_fetch_response
from ottla.protocol.messages.offset_commit_request import OffsetCommitRequest
from ottla.protocol.messages.offset_commit_response import OffsetCommitResponse
from ottla.protocol.messages.offset_fetch_response import OffsetFetchResponseTopic, OffsetFetchResponseTopics

# From version 10 on topics have ids instead of names. Names are what people know, and they also find offsets
# of topics that are gone.
NAMES_UNTIL = 9
GROUPS_FROM = 8
STABLE_FROM = 7
STALE_EPOCH_PAUSE_MS = 20

Result = TypeVar("Result")


class MemberIdentity(NamedTuple):
    """Who commits: nobody in particular, or a member in its epoch (or generation)."""

    member_id: str = ""
    epoch: int = -1
    instance_id: str | None = None


async def commit_offsets(
    connection: Connection,
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset | int],
    identity: MemberIdentity = MemberIdentity(),  # noqa: B008 (it does not change)
    *,
    timeout_ms: float,
) -> None:
    """Raises the first error of a partition."""
    request = commit_request(group_id, offsets, identity)
    response = await connection.request(
        request, OffsetCommitResponse, timeout_ms=timeout_ms, at_most=NAMES_UNTIL
    )
    check_committed(response, group_id)


async def fetch_offsets(
    connection: Connection,
    group_id: str,
    partitions: Iterable[TopicPartition] | None = None,
    identity: MemberIdentity = MemberIdentity(),  # noqa: B008
    *,
    require_stable: bool = False,
    timeout_ms: float,
) -> dict[TopicPartition, CommittedOffset]:
    """What is committed for these partitions (None: for all); those without an offset are left out."""
    version = connection.version_for(offset_fetch_request.OffsetFetchRequest.API_KEY, NAMES_UNTIL)
    request = fetch_request(version, group_id, partitions, identity, require_stable=require_stable)
    response = await connection.request(
        request, offset_fetch_response.OffsetFetchResponse, timeout_ms=timeout_ms, at_most=NAMES_UNTIL
    )
    return committed_in(response, group_id)


# What goes over the wire, for clients with an event loop and for those without one.


def commit_request(
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset | int],
    identity: MemberIdentity = MemberIdentity(),  # noqa: B008
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=identity.epoch,
        member_id=identity.member_id,
        group_instance_id=identity.instance_id,
        topics=commit_topics(offsets),
    )


def check_committed(response: OffsetCommitResponse, group_id: str) -> None:
    """Raises the first error of a partition."""
    for topic in response.topics:
        for row in topic.partitions:
            raise_for(row.error_code, group=group_id, topic=topic.name, partition=row.partition_index)


def fetch_request(
    version: int,
    group_id: str,
    partitions: Iterable[TopicPartition] | None = None,
    identity: MemberIdentity = MemberIdentity(),  # noqa: B008
    *,
    require_stable: bool = False,
) -> offset_fetch_request.OffsetFetchRequest:
    wire = offset_fetch_request
    chosen = None if partitions is None else partitions_by_topic(partitions)
    request = wire.OffsetFetchRequest(require_stable=require_stable and version >= STABLE_FROM)
    if version >= GROUPS_FROM:
        topics = None
        if chosen is not None:
            topics = [
                wire.OffsetFetchRequestTopics(name=topic, partition_indexes=numbers)
                for topic, numbers in chosen.items()
            ]
        member = (identity.member_id or None, identity.epoch) if version >= NAMES_UNTIL else (None, -1)
        request.groups = [
            wire.OffsetFetchRequestGroup(
                group_id=group_id, member_id=member[0], member_epoch=member[1], topics=topics
            )
        ]
    else:
        request.group_id = group_id
        request.topics = None
        if chosen is not None:
            request.topics = [
                wire.OffsetFetchRequestTopic(name=topic, partition_indexes=numbers)
                for topic, numbers in chosen.items()
            ]
    return request


def committed_in(
    response: offset_fetch_response.OffsetFetchResponse, group_id: str
) -> dict[TopicPartition, CommittedOffset]:
    """The offsets of a response. Raises the first error in it."""
    raise_for(response.error_code, group=group_id)
    found: dict[TopicPartition, CommittedOffset] = {}
    for group in response.groups:
        raise_for(group.error_code, group=group_id)
    topics: list[OffsetFetchResponseTopic | OffsetFetchResponseTopics] = [*response.topics]
    topics += [topic for group in response.groups for topic in group.topics]
    for topic in topics:
        for row in topic.partitions:
            raise_for(row.error_code, group=group_id, topic=topic.name, partition=row.partition_index)
            if row.committed_offset >= 0:
                found[topic.name, row.partition_index] = CommittedOffset(
                    row.committed_offset, row.committed_leader_epoch, row.metadata
                )
    return found


async def while_epoch_is_stale(work: Callable[[], Awaitable[Result]], timeout_ms: float) -> Result:
    """The group has a new epoch that we have not heard of yet: with the next heartbeat we will."""
    deadline = Deadline(timeout_ms)
    backoff = Backoff(STALE_EPOCH_PAUSE_MS, 500)
    while True:
        try:
            return await work()
        except BrokerError as error:
            if error.code != ErrorCode.STALE_MEMBER_EPOCH or deadline.passed:
                raise
        await backoff.pause(deadline)
