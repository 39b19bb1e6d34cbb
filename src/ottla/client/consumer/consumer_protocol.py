"""The consumer protocol (KIP-848): one request, and the coordinator computes assignments.

A heartbeat has only fields that changed; after a failure it has all of them. A response may have a target
assignment. The member revokes partitions that are not in it, adds new ones, and reports with the next
heartbeat which it owns. Other members are not interrupted.
"""

from __future__ import annotations

import asyncio
import base64
import uuid
from contextlib import suppress

from ottla.client.aio.connection import Connection
from ottla.client.aio.pause import pause
from ottla.client.consumer.membership import GROUP_LANE, Change, Membership, NotOffered
from ottla.client.core.group_offsets import MemberIdentity
from ottla.client.core.group_types import TopicPartition
from ottla.client.core.group_wire import partitions_by_topic
from ottla.client.errors import BrokerError, ClientError, UnsupportedApiError, raise_for
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from ottla.protocol.versions import (
    CONSUMER_GROUP_HEARTBEAT_CLIENT_MEMBER_ID_SINCE,
    CONSUMER_GROUP_HEARTBEAT_PATTERN_SINCE,
)

JOINING, LEAVING, LEAVING_FOR_RESTART = 0, -1, -2
UNKNOWN_TOPIC_PAUSE_MS = 200


class ConsumerProtocol:
    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        self._member_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._epoch = JOINING
        self._interval_ms = float(membership.options.heartbeat_interval_ms)
        # The target assignment, and the topics whose ids are known.
        self._target: dict[bytes, list[int]] = {}
        self._ids: dict[str, bytes] = {}
        self._change: Change | None = None
        # What the next heartbeat must have: all fields, or the owned partitions.
        self._send_all = True
        self._send_owned = False
        # The target has shrunk, and the coordinator has not been sent the owned partitions since. It waits
        # for them, also if the member never had the partition because its topic was still unknown.
        self._target_has_shrunk = False

    async def run(self) -> None:
        """Run until cancelled. Raises NotOffered and errors that are not retriable."""
        membership = self.membership
        backoff = self.membership.cluster.core.backoff()
        while True:
            if not membership.is_polled:
                await self._leave_until_polled()
            if self._epoch == JOINING and self._change is not None:
                # Lost partitions must be released before the member rejoins: a new member owns none.
                await asyncio.wait([self._change.done])
                self._change = None
            try:
                response = await membership.coordinators.once(
                    membership.options.group_id, self._heartbeat, lane=GROUP_LANE
                )
            except ClientError as error:
                self._failed(error)
                await pause(backoff)
                continue
            backoff.reset()
            self._take(response)
            unknown = await self._reconcile()
            if self._send_owned:
                continue
            wait_ms = min(self._interval_ms, UNKNOWN_TOPIC_PAUSE_MS) if unknown else self._interval_ms
            await membership.pause(wait_ms, self._change)
            if self._change is not None and self._change.done.done():
                self._change = None
                self._send_owned = True

    async def leave(self) -> None:
        membership = self.membership
        static = membership.options.instance_id is not None
        request = ConsumerGroupHeartbeatRequest(
            group_id=membership.options.group_id,
            member_id=self._member_id,
            member_epoch=LEAVING_FOR_RESTART if static else LEAVING,
            instance_id=membership.options.instance_id,
        )

        async def attempt(connection: Connection) -> None:
            await membership.cluster.ask(connection, request, ConsumerGroupHeartbeatResponse)

        await membership.coordinators.once(membership.options.group_id, attempt, lane=GROUP_LANE)

    async def _leave_until_polled(self) -> None:
        """The consumer does not poll: leave the partitions to other members until it does."""
        with suppress(ClientError):  # otherwise the session times out
            await self.leave()
        self._restart()
        await self.membership.wait_for_poll()

    async def _heartbeat(self, connection: Connection) -> ConsumerGroupHeartbeatResponse:
        membership = self.membership
        options, subscription = membership.options, membership.subscription
        try:
            version = connection.version_for(ConsumerGroupHeartbeatRequest.API_KEY)
        except UnsupportedApiError as error:
            raise NotOffered() from error
        request = ConsumerGroupHeartbeatRequest(
            group_id=options.group_id,
            member_id=self._member_id
            if version >= CONSUMER_GROUP_HEARTBEAT_CLIENT_MEMBER_ID_SINCE or self._epoch > JOINING
            else "",
            member_epoch=self._epoch,
            instance_id=options.instance_id,
        )
        changed = membership.subscription_changed
        if self._epoch == JOINING:
            self._send_all = True  # some coordinators need several heartbeats for a join
        if self._send_all or changed:
            request.subscribed_topic_names = list(subscription.topics)
            if version >= CONSUMER_GROUP_HEARTBEAT_PATTERN_SINCE:
                request.subscribed_topic_regex = subscription.pattern or ""
            elif subscription.pattern is not None:
                raise ClientError(f"group {options.group_id!r}: the broker is too old for topic patterns")
        if self._send_all:
            request.rack_id = options.rack
            request.rebalance_timeout_ms = options.max_poll_interval_ms
            request.server_assignor = options.assignor
        if self._send_all or self._send_owned:
            request.topic_partitions = [
                TopicPartitions(topic_id=self._ids[topic], partitions=numbers)
                for topic, numbers in partitions_by_topic(membership.owned).items()
            ]
        response = await membership.cluster.ask(connection, request, ConsumerGroupHeartbeatResponse)
        raise_for(response.error_code, group=options.group_id, detail=response.error_message)
        if request.topic_partitions is not None:
            self._target_has_shrunk = False
        self._send_all = self._send_owned = False
        if changed and membership.subscription == subscription:
            membership.subscription_changed = False
        return response

    def _failed(self, error: ClientError) -> None:
        """Handle a failed heartbeat. Raises the error if it is not retriable."""
        # Whether it arrived is unknown: send everything.
        self._send_all = True
        code = error.code if isinstance(error, BrokerError) else None
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self._restart()
        elif code in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.GROUP_ID_NOT_FOUND) and self._epoch == JOINING:
            # The protocol is disabled in the cluster, or the group has members of the classic one.
            raise NotOffered() from error
        elif not error.retriable and code != ErrorCode.UNRELEASED_INSTANCE_ID:
            raise error

    def _restart(self) -> None:
        self._epoch = JOINING
        self._send_all = True
        self._target = {}
        self._target_has_shrunk = False
        self._change = self.membership.lose()
        self.membership.identity = MemberIdentity(instance_id=self.membership.options.instance_id)

    def _take(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self._member_id = response.member_id or self._member_id
        self._epoch = response.member_epoch
        self._interval_ms = response.heartbeat_interval_ms or self._interval_ms
        self.membership.identity = MemberIdentity(
            self._member_id, self._epoch, self.membership.options.instance_id
        )
        if response.assignment is not None:
            before, rows = self._target, response.assignment.topic_partitions
            self._target = {bytes(row.topic_id): sorted(row.partitions) for row in rows}
            if any(not {*numbers} <= {*self._target.get(key, ())} for key, numbers in before.items()):
                self._target_has_shrunk = True

    async def _reconcile(self) -> bool:
        """Propose the change from the owned to the target partitions. True if a topic is still unknown."""
        target, unknown = await self._named_target()
        if self._change is not None or self.membership.change is not None:
            return unknown
        owned = self.membership.owned
        revoke = [key for key in owned if key not in target]
        assign = [key for key in target if key not in owned]
        if revoke or assign:
            self._change = self.membership.propose(revoke, assign)
        elif self._target_has_shrunk:
            self._send_owned = True
        return unknown

    async def _named_target(self) -> tuple[dict[TopicPartition, None], bool]:
        view = self.membership.cluster.view
        if any(view.name_of(topic_id) is None for topic_id in self._target):
            with suppress(ClientError):  # it is retried soon
                await self.membership.cluster.refresh(None)
        named: dict[TopicPartition, None] = {}
        unknown = False
        for topic_id, numbers in self._target.items():
            name = view.name_of(topic_id)
            if name is None:
                unknown = True
                continue
            self._ids[name] = topic_id
            named.update({(name, number): None for number in numbers})
        return named, unknown
