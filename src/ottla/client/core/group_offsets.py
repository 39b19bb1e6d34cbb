"""Committed offsets of a group: read and written by members, by standalone consumers and by admins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ottla.client.core.cluster import ClusterCore
from ottla.client.core.coordinators import Coordinators
from ottla.client.core.group_types import CommittedOffset, TopicPartition
from ottla.client.core.group_wire import commit_topics, partitions_by_topic
from ottla.client.core.retry import Backoff
from ottla.client.core.steps import Pause, Result, Steps
from ottla.client.errors import BrokerError, raise_for
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import offset_fetch_request, offset_fetch_response
from ottla.protocol.messages.offset_commit_request import OffsetCommitRequest
from ottla.protocol.messages.offset_commit_response import OffsetCommitResponse
from ottla.protocol.messages.offset_fetch_response import OffsetFetchResponseTopic, OffsetFetchResponseTopics
from ottla.protocol.versions import (
    OFFSET_FETCH_GROUPS_SINCE,
    OFFSET_FETCH_MEMBER_EPOCH_SINCE,
    OFFSET_FETCH_REQUIRE_STABLE_SINCE,
    OFFSET_FETCH_TOPIC_IDS_SINCE,
)

# From version 10 on topics have ids instead of names. Names also find offsets of deleted topics.
NAMES_UNTIL = OFFSET_FETCH_TOPIC_IDS_SINCE - 1
STALE_EPOCH_PAUSE_MS = 20
STALE_EPOCH_PAUSE_MAX_MS = 500


class MemberIdentity(NamedTuple):
    """The member that commits, in its epoch or generation; by default none."""

    member_id: str = ""
    epoch: int = -1
    instance_id: str | None = None


def commit_offsets(
    coordinators: Coordinators,
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset | int],
    identity: Callable[[], MemberIdentity] = MemberIdentity,
    *,
    timeout_ms: float | None = None,
) -> Steps[None]:
    """Raises the first error of a partition."""
    cluster = coordinators.cluster
    limit_ms = cluster.options.request_timeout_ms

    def attempt(node_id: int) -> Steps[None]:
        response = yield from cluster.ask_node(
            node_id,
            commit_request(group_id, offsets, identity()),
            OffsetCommitResponse,
            at_most=NAMES_UNTIL,
            timeout_ms=limit_ms if timeout_ms is None else min(limit_ms, max(timeout_ms, 1)),
        )
        for topic in response.topics:
            for row in topic.partitions:
                raise_for(row.error_code, group=group_id, topic=topic.name, partition=row.partition_index)

    yield from while_epoch_is_stale(
        cluster, lambda: coordinators.retrying(group_id, attempt, timeout_ms=timeout_ms), timeout_ms
    )


def fetch_offsets(
    coordinators: Coordinators,
    group_id: str,
    partitions: Iterable[TopicPartition] | None = None,
    identity: Callable[[], MemberIdentity] = MemberIdentity,
    *,
    require_stable: bool = False,
    timeout_ms: float | None = None,
) -> Steps[dict[TopicPartition, CommittedOffset]]:
    """What is committed for these partitions (None: for all); those without an offset are left out.

    With `require_stable`, waits for the end of transactions that are about to commit offsets.
    """
    cluster = coordinators.cluster
    chosen = None if partitions is None else list(partitions)

    def attempt(node_id: int) -> Steps[dict[TopicPartition, CommittedOffset]]:
        response = yield from cluster.ask_node(
            node_id,
            lambda peer: fetch_request(
                peer.version_for(offset_fetch_request.OffsetFetchRequest.API_KEY, NAMES_UNTIL),
                group_id,
                chosen,
                identity(),
                require_stable=require_stable,
            ),
            offset_fetch_response.OffsetFetchResponse,
            at_most=NAMES_UNTIL,
        )
        return committed_in(response, group_id)

    return (
        yield from while_epoch_is_stale(
            cluster, lambda: coordinators.retrying(group_id, attempt, timeout_ms=timeout_ms), timeout_ms
        )
    )


def while_epoch_is_stale(
    cluster: ClusterCore, attempt: Callable[[], Steps[Result]], timeout_ms: float | None = None
) -> Steps[Result]:
    """Retry until the member has its group's new epoch, which the next heartbeat returns."""
    deadline = cluster.deadline(cluster.options.retry_timeout_ms if timeout_ms is None else timeout_ms)
    backoff = Backoff(STALE_EPOCH_PAUSE_MS, STALE_EPOCH_PAUSE_MAX_MS, cluster.clock)
    while True:
        try:
            return (yield from attempt())
        except BrokerError as error:
            if error.code != ErrorCode.STALE_MEMBER_EPOCH or deadline.passed:
                raise
        yield Pause(min(backoff.next_ms(), deadline.left_ms))


def commit_request(
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset | int],
    identity: MemberIdentity,
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=identity.epoch,
        member_id=identity.member_id,
        group_instance_id=identity.instance_id,
        topics=commit_topics(offsets),
    )


def fetch_request(
    version: int,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    identity: MemberIdentity,
    *,
    require_stable: bool,
) -> offset_fetch_request.OffsetFetchRequest:
    wire = offset_fetch_request
    chosen = None if partitions is None else partitions_by_topic(partitions)
    request = wire.OffsetFetchRequest(
        require_stable=require_stable and version >= OFFSET_FETCH_REQUIRE_STABLE_SINCE
    )
    if version >= OFFSET_FETCH_GROUPS_SINCE:
        topics = None
        if chosen is not None:
            topics = [
                wire.OffsetFetchRequestTopics(name=topic, partition_indexes=numbers)
                for topic, numbers in chosen.items()
            ]
        member = (
            (identity.member_id or None, identity.epoch)
            if version >= OFFSET_FETCH_MEMBER_EPOCH_SINCE
            else (None, -1)
        )
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
