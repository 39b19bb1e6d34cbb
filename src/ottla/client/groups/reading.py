"""The consumer as a member of a group: partitions come and go, offsets are committed."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.client.aio.cluster import ClusterUser
from ottla.client.aio.connection import Connection
from ottla.client.aio.coordinators import Coordinators
from ottla.client.core.offsets import OffsetQueries, TopicPartition
from ottla.client.errors import BrokerError, ClientError
from ottla.client.groups.membership import (
    PROTOCOLS,
    Change,
    GroupOptions,
    Membership,
    RebalanceListener,
    Subscription,
    is_removed,
)
from ottla.client.groups.offsets import MemberIdentity, commit_offsets, fetch_offsets, while_epoch_is_stale
from ottla.client.groups.types import CommittedOffset
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.client.aio.consumer import Start
    from ottla.client.core.consumer_state import PartitionState

log = logging.getLogger("ottla.client")

AUTO_COMMIT_TIMEOUT_MS = 3_000


class GroupReading(OffsetQueries, ClusterUser):
    """What a consumer does with its group, if it has one."""

    _states: dict[TopicPartition, PartitionState]
    _group_options: GroupOptions | None
    _auto_commit: bool
    _auto_commit_interval_ms: float
    _membership: Membership | None = None
    _listener: RebalanceListener | None = None
    _start: Start = "beginning"
    _lone_coordinators: Coordinators | None = None
    _commit_due_s = 0.0

    # What users call.

    def subscribe(
        self,
        *topics: str | Iterable[str],
        pattern: str | None = None,
        start: Start = "beginning",
        listener: RebalanceListener | None = None,
    ) -> None:
        """Share these topics (or all that a regular expression matches) with the other members of the group.

        Topics are names, or lists of names as other clients take them. Reading goes on where the group
        stands; `start` says where it begins in partitions that it has committed nothing for. Called again,
        it changes the subscription.
        """
        if self._group_options is None:
            raise ClientError("subscribe needs a group: make the consumer with group_id=..., or use assign")
        names = [name for each in topics for name in ((each,) if isinstance(each, str) else each)]
        if bool(names) == (pattern is not None):
            raise ValueError("subscribe takes names of topics, or a pattern")
        if self._membership is None and self._states:
            raise ClientError("partitions are assigned by hand: subscribe with another consumer")
        self._start = start
        self._listener = listener
        subscription = Subscription(tuple(dict.fromkeys(names)), pattern)
        if self._membership is None:
            self._membership = Membership(self.cluster, self._group_options, subscription)
        else:
            self._membership.subscribe(subscription)

    @property
    def group_id(self) -> str | None:
        return None if self._group_options is None else self._group_options.group_id

    @property
    def member_id(self) -> str | None:
        """Who this is in its group; None before it has joined, and in no group."""
        return (self._membership.identity.member_id or None) if self._membership is not None else None

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset | int] | None = None) -> None:
        """Write down where the group stands: after the last record that was handed out, or at these offsets.

        An offset is that of the next record to be read. Raises BrokerError if the group has moved on without
        us (ILLEGAL_GENERATION, FENCED_MEMBER_EPOCH, ...): what was read will be read by somebody else too.
        """
        if offsets is None:
            offsets = self.consumed_offsets()
        await self._commit(offsets, self.cluster.retry_timeout_ms)

    async def committed(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """Where the group stands in these partitions (None: in all it has committed for)."""
        asked = None if partitions is None else list(partitions)
        return await self._fetch_committed(asked, MemberIdentity(), require_stable=False)

    def consumed_offsets(self) -> dict[TopicPartition, int]:
        """Where the consumer has come to: after the last record that was handed out."""
        return {key: state.consumed for key, state in self._states.items()}

    def member_identity(self) -> MemberIdentity:
        """Who commits in the name of this consumer. Raises if what it has read is somebody else's by now."""
        membership = self._membership
        if membership is not None and membership.change is not None and membership.change.lost:
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, group=self.group_id)
        return self._identity()

    async def seek_to_committed(self) -> None:
        """Go back to where the group stands, as after a transaction that was aborted; where it has committed
        nothing, to where it began."""
        committed = await self._fetch_committed(list(self._states), None, require_stable=True)
        starts = {key: self._start if key not in committed else committed[key].offset for key in self._states}
        for key, offset in (await self._resolve(starts)).items():
            if key in self._states:
                self._states[key].seek(offset)

    # Inside: rebalances.

    async def _settle(self) -> None:
        """Let the group know that we are here, and make the change that it wants."""
        assert self._membership is not None
        change = self._membership.poll()
        if change is None:
            return
        if change.revoke:
            await self._give_up(change)
        if change.assign and not await self._take_over(change):
            return  # we are out, which the membership is about to find out
        self._membership.settled(change)

    async def _give_up(self, change: Change) -> None:
        mine = [key for key in change.revoke if key in self._states]
        try:
            if mine and not change.lost and self._auto_commit:
                await self._commit_quietly()
            if mine and self._listener is not None:
                listener = self._listener
                await (listener.on_partitions_lost if change.lost else listener.on_partitions_revoked)(mine)
        finally:
            for key in mine:
                self._states.pop(key).seek(-1)

    async def _take_over(self, change: Change) -> bool:
        assert self._membership is not None
        new = [key for key in change.assign if key not in self._states]
        try:
            committed = await self._fetch_committed(new, None, require_stable=True)
        except BrokerError as error:
            if is_removed(error):
                return False
            raise
        starts = {key: self._start if key not in committed else committed[key].offset for key in new}
        for key, offset in (await self._resolve(starts)).items():
            state = self._add_state(key, offset)
            state.committed = committed[key].offset if key in committed else -1
        if new and self._listener is not None:
            await self._listener.on_partitions_assigned(new)
        return True

    async def _leave_group(self, *, commit: bool) -> None:
        if commit and self._auto_commit and self._group_options is not None:
            await self._commit_quietly()
        if self._membership is not None:
            await self._membership.leave()

    async def _resolve(self, starts: dict[TopicPartition, Start]) -> dict[TopicPartition, int]:
        raise NotImplementedError

    def _add_state(self, key: TopicPartition, offset: int) -> PartitionState:
        raise NotImplementedError

    # Inside: offsets.

    async def _commit_if_due(self) -> None:
        if self._group_options is None or not self._auto_commit:
            return
        now_s = time.monotonic()
        if self._commit_due_s == 0.0:
            self._commit_due_s = now_s + self._auto_commit_interval_ms / 1000
        elif now_s >= self._commit_due_s:
            await self._commit_quietly()
            self._commit_due_s = time.monotonic() + self._auto_commit_interval_ms / 1000

    async def _commit_quietly(self) -> None:
        """What cannot be committed now is committed the next time, or read again by whoever is next."""
        states = self._states.items()
        due = {key: state.consumed for key, state in states if state.consumed != state.committed}
        try:
            await self._commit(due, AUTO_COMMIT_TIMEOUT_MS)
        except ClientError as error:
            log.warning("offsets not committed: group=%s error=%s", self.group_id, error)

    async def _commit(
        self, offsets: Mapping[TopicPartition, CommittedOffset | int], timeout_ms: float
    ) -> None:
        if self._group_options is None:
            raise ClientError("commit needs a group: make the consumer with group_id=...")
        if not offsets:
            return
        group_id = self._group_options.group_id
        coordinators = self._coordinators()

        async def attempt(connection: Connection) -> None:
            identity = self._identity()
            request_timeout_ms = min(self.cluster.request_timeout_ms, max(timeout_ms, 1))
            await commit_offsets(connection, group_id, offsets, identity, timeout_ms=request_timeout_ms)

        await while_epoch_is_stale(
            lambda: coordinators.retrying(group_id, attempt, timeout_ms=timeout_ms), timeout_ms
        )
        for key, given in offsets.items():
            if key in self._states:
                self._states[key].committed = given if isinstance(given, int) else given.offset

    async def _fetch_committed(
        self,
        partitions: list[TopicPartition] | None,
        identity: MemberIdentity | None,
        *,
        require_stable: bool,
    ) -> dict[TopicPartition, CommittedOffset]:
        if self._group_options is None:
            raise ClientError("there are no offsets without a group: make the consumer with group_id=...")
        if partitions is not None and not partitions:
            return {}
        group_id = self._group_options.group_id
        coordinators = self._coordinators()

        async def attempt(connection: Connection) -> dict[TopicPartition, CommittedOffset]:
            who = self._identity() if identity is None else identity
            return await fetch_offsets(
                connection,
                group_id,
                partitions,
                who,
                require_stable=require_stable,
                timeout_ms=self.cluster.request_timeout_ms,
            )

        timeout_ms = self.cluster.retry_timeout_ms
        return await while_epoch_is_stale(lambda: coordinators.retrying(group_id, attempt), timeout_ms)

    def _identity(self) -> MemberIdentity:
        return MemberIdentity() if self._membership is None else self._membership.identity

    def _coordinators(self) -> Coordinators:
        if self._membership is not None:
            return self._membership.coordinators
        if self._lone_coordinators is None:
            self._lone_coordinators = Coordinators(self.cluster)
        return self._lone_coordinators


def checked_options(options: GroupOptions) -> GroupOptions:
    """Raises ValueError."""
    if not options.group_id:
        raise ValueError("group_id: a group needs a name")
    if options.protocol not in PROTOCOLS:
        raise ValueError(f"group_protocol={options.protocol!r}: expected one of {', '.join(PROTOCOLS)}")
    return options
