"""The consumer protocol (KIP-848): one request, and the coordinator does the thinking.

Each heartbeat tells only what is new; after a failure all is told again. An answer may hold an assignment:
what we are to have now. We give up what is not in it, take over what is, and say with the next heartbeat
what we have. Nobody else notices.
"""

from __future__ import annotations

import asyncio
import base64
import uuid
from contextlib import suppress

from ottla.client.aio.connection import Connection
from ottla.client.aio.pause import pause
from ottla.client.core.group_offsets import MemberIdentity
from ottla.client.core.group_types import TopicPartition
from ottla.client.core.group_wire import partitions_by_topic
from ottla.client.errors import BrokerError, ClientError, UnsupportedApiError, raise_for
from ottla.client.groups.membership import GROUP_LANE, Change, Membership, NotOffered
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
        # What the coordinator wants us to have, and the topics that we know by their ids.
        self._target: dict[bytes, list[int]] = {}
        self._ids: dict[str, bytes] = {}
        self._change: Change | None = None
        # What the next heartbeat must tell: everything, or only what we have.
        self._tell_all = True
        self._tell_owned = False
        # Something was taken back, and the coordinator has not heard since what we have: it waits for that,
        # also where we never had it, because we did not know the topic yet.
        self._was_taken_back = False

    async def run(self) -> None:
        """Until it is cancelled. Raises NotOffered and whatever does not pass by itself."""
        membership = self.membership
        backoff = self.membership.cluster.core.backoff()
        while True:
            if not membership.is_polled:
                await self._sit_out()
            if self._epoch == JOINING and self._change is not None:
                # What we lost must be given up before we join again: who joins has nothing.
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
            self._learn(response)
            unknown = await self._reconcile()
            if self._tell_owned:
                continue
            wait_ms = min(self._interval_ms, UNKNOWN_TOPIC_PAUSE_MS) if unknown else self._interval_ms
            await membership.pause(wait_ms, self._change)
            if self._change is not None and self._change.done.done():
                self._change = None
                self._tell_owned = True

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

    async def _sit_out(self) -> None:
        """Nobody has polled for long: others shall have the partitions until somebody does."""
        with suppress(ClientError):  # failing that, the coordinator will miss our heartbeats
            await self.leave()
        self._start_over()
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
            self._tell_all = True  # some coordinators let a member join more than once
        if self._tell_all or changed:
            request.subscribed_topic_names = list(subscription.topics)
            if version >= CONSUMER_GROUP_HEARTBEAT_PATTERN_SINCE:
                request.subscribed_topic_regex = subscription.pattern or ""
            elif subscription.pattern is not None:
                raise ClientError(f"group {options.group_id!r}: the broker is too old for patterns of topics")
        if self._tell_all:
            request.rack_id = options.rack
            request.rebalance_timeout_ms = options.max_poll_interval_ms
            request.server_assignor = options.assignor
        if self._tell_all or self._tell_owned:
            request.topic_partitions = [
                TopicPartitions(topic_id=self._ids[topic], partitions=numbers)
                for topic, numbers in partitions_by_topic(membership.owned).items()
            ]
        response = await membership.cluster.ask(connection, request, ConsumerGroupHeartbeatResponse)
        raise_for(response.error_code, group=options.group_id, detail=response.error_message)
        if request.topic_partitions is not None:
            self._was_taken_back = False
        self._tell_all = self._tell_owned = False
        if changed and membership.subscription == subscription:
            membership.subscription_changed = False
        return response

    def _failed(self, error: ClientError) -> None:
        """Decide what a failed heartbeat means. Raises it if it does not pass by itself."""
        # Whether it arrived is not known: all is told again.
        self._tell_all = True
        code = error.code if isinstance(error, BrokerError) else None
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self._start_over()
        elif code in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.GROUP_ID_NOT_FOUND) and self._epoch == JOINING:
            # The cluster has the protocol switched off, or the group has members that speak the other.
            raise NotOffered() from error
        elif not error.retriable and code != ErrorCode.UNRELEASED_INSTANCE_ID:
            raise error

    def _start_over(self) -> None:
        self._epoch = JOINING
        self._tell_all = True
        self._target = {}
        self._was_taken_back = False
        self._change = self.membership.lose()
        self.membership.identity = MemberIdentity(instance_id=self.membership.options.instance_id)

    def _learn(self, response: ConsumerGroupHeartbeatResponse) -> None:
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
                self._was_taken_back = True

    async def _reconcile(self) -> bool:
        """Propose the way from what we have to what we should have. True if a topic is not known yet."""
        target, unknown = await self._named_target()
        if self._change is not None or self.membership.change is not None:
            return unknown
        owned = self.membership.owned
        revoke = [key for key in owned if key not in target]
        assign = [key for key in target if key not in owned]
        if revoke or assign:
            self._change = self.membership.propose(revoke, assign)
        elif self._was_taken_back:
            self._tell_owned = True
        return unknown

    async def _named_target(self) -> tuple[dict[TopicPartition, None], bool]:
        view = self.membership.cluster.view
        if any(view.name_of(topic_id) is None for topic_id in self._target):
            with suppress(ClientError):  # it is asked for again soon
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
