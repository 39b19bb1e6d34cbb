"""A consumer in its group: partitions are assigned and revoked, offsets are committed."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from ottla.client.aio.cluster import ClusterClient
from ottla.client.aio.coordinators import Coordinators
from ottla.client.consumer.classic_protocol import ClassicProtocol
from ottla.client.consumer.consumer_protocol import ConsumerProtocol
from ottla.client.consumer.fetcher import Fetcher, Start
from ottla.client.consumer.membership import (
    Change,
    GroupOptions,
    Membership,
    Protocols,
    RebalanceListener,
    Subscription,
    is_removed,
)
from ottla.client.core.group_offsets import MemberIdentity, commit_offsets, fetch_offsets
from ottla.client.core.group_types import CommittedOffset, TopicPartition
from ottla.client.errors import BrokerError, ClientError
from ottla.protocol.errors import ErrorCode

log = logging.getLogger("ottla.client")

AUTO_COMMIT_TIMEOUT_MS = 3_000


class ConsumerGroup:
    """The group of a consumer, which becomes a member when it subscribes."""

    def __init__(
        self,
        cluster: ClusterClient,
        fetcher: Fetcher,
        options: GroupOptions,
        auto_commit_interval_ms: float | None,
    ) -> None:
        self.options = options
        self.membership: Membership | None = None
        self._cluster = cluster
        self._fetcher = fetcher
        self._auto_commit_interval_ms = auto_commit_interval_ms
        self._listener: RebalanceListener | None = None
        self._start: Start = "beginning"
        self._coordinators = Coordinators(cluster)
        self._commit_due_s = 0.0

    def subscribe(
        self,
        subscription: Subscription,
        start: Start,
        listener: RebalanceListener | None,
    ) -> None:
        self._start = start
        self._listener = listener
        if self.membership is None:
            self.membership = Membership(
                self._cluster,
                self.options,
                subscription,
                self._coordinators,
                Protocols(ConsumerProtocol, ClassicProtocol),
            )
        else:
            self.membership.subscribe(subscription)

    @property
    def member_id(self) -> str | None:
        return (self.membership.identity.member_id or None) if self.membership is not None else None

    def member_identity(self) -> MemberIdentity:
        """The identity for commits. Raises if another member may own the partitions.

        A consumer that never subscribed is no member, and commits as such.
        """
        membership = self.membership
        if membership is None:
            return MemberIdentity()
        is_lost = membership.change is not None and membership.change.lost
        if is_lost or not membership.identity.member_id:
            raise BrokerError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                group=self.options.group_id,
                detail="this consumer is not a member of the group now: poll to join it",
            )
        return membership.identity

    # Offsets.

    async def commit(
        self,
        offsets: Mapping[TopicPartition, CommittedOffset | int],
        *,
        timeout_ms: float | None = None,
    ) -> None:
        if not offsets:
            return
        await self._cluster.run(
            commit_offsets(
                self._coordinators.core,
                self.options.group_id,
                offsets,
                self.member_identity,
                timeout_ms=timeout_ms,
            )
        )
        for key, given in offsets.items():
            if key in self._fetcher.states:
                self._fetcher.states[key].committed = given if isinstance(given, int) else given.offset

    async def committed(
        self, partitions: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, CommittedOffset]:
        chosen = None if partitions is None else list(partitions)
        if chosen is not None and not chosen:
            return {}
        return await self._cluster.run(fetch_offsets(self._coordinators.core, self.options.group_id, chosen))

    async def seek_to_committed(self) -> None:
        keys = list(self._fetcher.states)
        starts = await self._starts(keys, await self._stable_offsets(keys))
        for key, offset in starts.items():
            if key in self._fetcher.states:
                self._fetcher.states[key].seek(offset)

    async def _stable_offsets(self, keys: list[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """Committed offsets, after the end of transactions that are about to commit some."""
        if not keys:
            return {}
        return await self._cluster.run(
            fetch_offsets(
                self._coordinators.core,
                self.options.group_id,
                keys,
                self.member_identity,
                require_stable=True,
            )
        )

    async def _starts(
        self, keys: list[TopicPartition], committed: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, int]:
        starts = {key: committed[key].offset if key in committed else self._start for key in keys}
        return await self._fetcher.resolve(starts)

    # Called by poll.

    async def commit_if_due(self) -> None:
        interval_ms = self._auto_commit_interval_ms
        if interval_ms is None:
            return
        now_s = self._cluster.core.clock.now_s
        if self._commit_due_s == 0.0:
            self._commit_due_s = now_s() + interval_ms / 1000
        elif now_s() >= self._commit_due_s:
            await self._commit_quietly()
            self._commit_due_s = now_s() + interval_ms / 1000

    async def _commit_quietly(self) -> None:
        """On a failure the next commit has the offsets, or the next owner rereads the records."""
        states = self._fetcher.states.items()
        due = {key: state.consumed for key, state in states if state.consumed != state.committed}
        try:
            await self.commit(due, timeout_ms=AUTO_COMMIT_TIMEOUT_MS)
        except ClientError as error:
            log.warning("offsets not committed: group=%s error=%s", self.options.group_id, error)

    async def reconcile(self) -> None:
        """Report to the membership that the consumer polls, and make the change that it proposes."""
        assert self.membership is not None
        change = self.membership.poll()
        if change is None:
            return
        if change.revoke:
            await self._revoke(change)
        if change.assign and not await self._assign(change):
            return  # the member was removed; the membership will detect it
        self.membership.settled(change)

    async def _revoke(self, change: Change) -> None:
        states = self._fetcher.states
        owned = [key for key in change.revoke if key in states]
        try:
            if owned and not change.lost and self._auto_commit_interval_ms is not None:
                await self._commit_quietly()
            if owned and self._listener is not None:
                listener = self._listener
                await (listener.on_partitions_lost if change.lost else listener.on_partitions_revoked)(owned)
        finally:
            self._fetcher.remove(owned)

    async def _assign(self, change: Change) -> bool:
        """False if the consumer was removed from the group in the meantime."""
        new = [key for key in change.assign if key not in self._fetcher.states]
        try:
            committed = await self._stable_offsets(new)
        except BrokerError as error:
            if is_removed(error):
                return False
            raise
        for key, offset in (await self._starts(new, committed)).items():
            state = self._fetcher.add(key, offset)
            state.committed = committed[key].offset if key in committed else -1
        if new and self._listener is not None:
            await self._listener.on_partitions_assigned(new)
        return True

    async def leave(self, *, commit: bool) -> None:
        if commit and self._auto_commit_interval_ms is not None:
            await self._commit_quietly()
        if self.membership is not None:
            await self.membership.leave()
