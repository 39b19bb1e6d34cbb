"""The classic protocol: JoinGroup, SyncGroup, heartbeats; one member is the leader and assigns by range.

Rebalances are eager, which every client supports: members revoke all partitions before they rejoin.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Mapping

from ottla.client.aio.connection import Connection
from ottla.client.aio.pause import pause
from ottla.client.consumer.membership import GROUP_LANE, Change, Membership, is_removed
from ottla.client.core.group_offsets import MemberIdentity
from ottla.client.core.group_types import TopicPartition
from ottla.client.core.group_wire import (
    PROTOCOL_TYPE,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from ottla.client.errors import BrokerError, ClientError, raise_for
from ottla.protocol.errors import DecodeError, ErrorCode
from ottla.protocol.messages import join_group_request, join_group_response, sync_group_request
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.heartbeat_response import HeartbeatResponse
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest
from ottla.protocol.messages.leave_group_request import MemberIdentity as LeavingMember
from ottla.protocol.messages.leave_group_response import LeaveGroupResponse
from ottla.protocol.messages.sync_group_response import SyncGroupResponse
from ottla.protocol.versions import LEAVE_GROUP_MEMBERS_SINCE

ASSIGNOR = "range"
# The time-out of JoinGroup is this much longer than the coordinator may take.
JOIN_GRACE_MS = 10_000
# How often a leader looks for new topics and partitions.
LOOK_AT_TOPICS_MS = 30_000


class ClassicProtocol:
    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        self._member_id = ""
        self._generation = -1
        # As leader: the partition counts of the assigned topics, to notice changes.
        self._led: dict[str, int] | None = None
        self._looked_s = 0.0

    async def run(self) -> None:
        """Run until cancelled. Raises errors that are not retriable."""
        backoff = self.membership.cluster.core.backoff()
        while True:
            try:
                await self._revoke_all()
                assigned = await self._join()
                backoff.reset()
                if assigned:
                    await self._until(self.membership.propose((), assigned))
                await self._stay()
            except ClientError as error:
                if is_removed(error):
                    self._restart()
                elif not (error.retriable or _is(error, ErrorCode.REBALANCE_IN_PROGRESS)):
                    raise
                elif error.retriable:
                    await pause(backoff)

    async def leave(self) -> None:
        if self.membership.options.instance_id is not None or not self._member_id:
            return  # a static member keeps its place for its return
        request = LeaveGroupRequest(group_id=self.membership.options.group_id)

        async def attempt(connection: Connection) -> None:
            if connection.version_for(request.API_KEY) >= LEAVE_GROUP_MEMBERS_SINCE:
                leaving = LeavingMember(member_id=self._member_id, reason="the consumer is being closed")
                request.members = [leaving]
            else:
                request.member_id = self._member_id
            await self.membership.cluster.ask(connection, request, LeaveGroupResponse)

        await self.membership.coordinators.once(self.membership.options.group_id, attempt, lane=GROUP_LANE)

    def _restart(self) -> None:
        self._member_id, self._generation, self._led = "", -1, None
        self._set_identity()
        self.membership.lose()

    def _set_identity(self) -> None:
        instance_id = self.membership.options.instance_id
        self.membership.identity = MemberIdentity(self._member_id, self._generation, instance_id)

    async def _revoke_all(self) -> None:
        """Have the consumer release the partitions that it owns or has lost."""
        membership = self.membership
        if membership.change is not None:
            await self._until(membership.change)
        if membership.owned:
            await self._until(membership.propose(membership.owned, ()))

    async def _until(self, change: Change) -> None:
        """Wait for the consumer to make a change, and send heartbeats in the meantime."""
        while not change.done.done():
            await asyncio.wait([change.done], timeout=self.membership.options.heartbeat_interval_ms / 1000)
            if not change.done.done() and self._member_id:
                try:
                    await self._heartbeat()
                except ClientError as error:
                    if not error.retriable and not _is(error, ErrorCode.REBALANCE_IN_PROGRESS):
                        raise

    async def _stay(self) -> None:
        """Send heartbeats until the group rebalances, which is raised, or the subscription changes."""
        membership = self.membership
        while True:
            await membership.pause(membership.options.heartbeat_interval_ms)
            if membership.subscription_changed or await self._has_new_topics():
                return
            try:
                await self._heartbeat()
            except ClientError as error:
                if not error.retriable:
                    raise

    async def _heartbeat(self) -> None:
        membership = self.membership
        if not membership.is_polled:
            # The consumer does not poll: leave the partitions to other members until it does.
            await self.leave()
            self._restart()
            await membership.wait_for_poll()
            raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS, group=membership.options.group_id)
        request = HeartbeatRequest(
            group_id=membership.options.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=membership.options.instance_id,
        )

        async def attempt(connection: Connection) -> None:
            response = await membership.cluster.ask(connection, request, HeartbeatResponse)
            raise_for(response.error_code, group=request.group_id)

        await membership.coordinators.once(request.group_id, attempt, lane=GROUP_LANE)

    # Joining.

    async def _join(self) -> list[TopicPartition]:
        """Join and sync; returns the assignment."""
        membership = self.membership
        membership.subscription_changed = False
        topics = await self._topics()
        response = await self._ask_to_join(topics)
        self._member_id, self._generation = response.member_id, response.generation_id
        assignments: dict[str, list[TopicPartition]] = {}
        self._led = None
        if response.leader == response.member_id and not response.skip_assignment:
            assignments = await self._assign(response.members)
        assigned = await self._sync(assignments)
        self._set_identity()
        return assigned

    async def _ask_to_join(self, topics: list[str]) -> join_group_response.JoinGroupResponse:
        options = self.membership.options
        wire = join_group_request
        timeout_ms = options.max_poll_interval_ms + JOIN_GRACE_MS

        async def attempt(connection: Connection) -> join_group_response.JoinGroupResponse:
            request = wire.JoinGroupRequest(
                group_id=options.group_id,
                session_timeout_ms=options.session_timeout_ms,
                rebalance_timeout_ms=options.max_poll_interval_ms,
                member_id=self._member_id,
                group_instance_id=options.instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[wire.JoinGroupRequestProtocol(name=ASSIGNOR, metadata=write_subscription(topics))],
            )
            response = await connection.request(
                request, join_group_response.JoinGroupResponse, timeout_ms=timeout_ms
            )
            if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = response.member_id
                return await attempt(connection)
            raise_for(response.error_code, group=options.group_id)
            return response

        return await self.membership.coordinators.once(options.group_id, attempt, lane=GROUP_LANE)

    async def _sync(self, assignments: Mapping[str, list[TopicPartition]]) -> list[TopicPartition]:
        options = self.membership.options
        wire = sync_group_request
        request = wire.SyncGroupRequest(
            group_id=options.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=options.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=ASSIGNOR,
            assignments=[
                wire.SyncGroupRequestAssignment(member_id=member_id, assignment=write_assignment(keys))
                for member_id, keys in assignments.items()
            ],
        )
        timeout_ms = options.max_poll_interval_ms + JOIN_GRACE_MS

        async def attempt(connection: Connection) -> list[TopicPartition]:
            response = await connection.request(request, SyncGroupResponse, timeout_ms=timeout_ms)
            raise_for(response.error_code, group=options.group_id)
            try:
                return read_assignment(bytes(response.assignment))
            except DecodeError as error:
                raise ClientError(f"group {options.group_id!r}: invalid assignment: {error}") from error

        return await self.membership.coordinators.once(options.group_id, attempt, lane=GROUP_LANE)

    # Leader.

    async def _assign(
        self, members: Iterable[join_group_response.JoinGroupResponseMember]
    ) -> dict[str, list[TopicPartition]]:
        wanted: dict[str, list[str]] = {}
        for member in sorted(members, key=lambda row: (row.group_instance_id or "", row.member_id)):
            try:
                wanted[member.member_id] = read_subscription(bytes(member.metadata))
            except DecodeError:
                wanted[member.member_id] = []
        self._led = await self._partition_counts({topic for topics in wanted.values() for topic in topics})
        self._looked_s = time.monotonic()
        return assign_range(wanted, self._led)

    async def _partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        names = sorted(topics)
        cluster = self.membership.cluster
        await cluster.refresh(names)
        return {
            name: 0 if (info := cluster.view.topics.get(name)) is None else len(info.partitions)
            for name in names
        }

    async def _topics(self) -> list[str]:
        """The topics to subscribe to; patterns are matched here, because the protocol has names only."""
        subscription = self.membership.subscription
        if subscription.pattern is None:
            return list(subscription.topics)
        cluster = self.membership.cluster
        await cluster.refresh(None)
        pattern = re.compile(subscription.pattern)
        return [
            name
            for name, info in cluster.view.topics.items()
            if pattern.fullmatch(name) and not info.is_internal
        ]

    async def _has_new_topics(self) -> bool:
        if self._led is None or (time.monotonic() - self._looked_s) * 1000 < LOOK_AT_TOPICS_MS:
            return False
        self._looked_s = time.monotonic()
        try:
            return await self._partition_counts(self._led) != self._led
        except ClientError:
            return False


def assign_range(
    wanted: Mapping[str, list[str]], counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Assign ranges of each topic; the first members get one more if the number is not divisible."""
    assigned: dict[str, list[TopicPartition]] = {member_id: [] for member_id in wanted}
    for topic, count in counts.items():
        readers = [member_id for member_id, topics in wanted.items() if topic in topics]
        first = 0
        for position, member_id in enumerate(readers):
            share = count // len(readers) + (position < count % len(readers))
            assigned[member_id] += [(topic, number) for number in range(first, first + share)]
            first += share
    return assigned


def _is(error: ClientError, code: ErrorCode) -> bool:
    return isinstance(error, BrokerError) and error.code == code
