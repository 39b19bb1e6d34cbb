"""Membership of a consumer in a group: its identity, its partitions, the next change of them.

A background task joins and sends heartbeats. It does not change the assignment itself: it proposes a
`Change`, and the consumer makes it in its next poll, between records of the user. A consumer that does not
poll for `max_poll_interval_ms` leaves the group, and rejoins with its next poll.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol, Self

from ottla.client.aio.cluster import ClusterClient
from ottla.client.aio.coordinators import Coordinators
from ottla.client.core.group_offsets import MemberIdentity
from ottla.client.core.group_types import TopicPartition
from ottla.client.errors import BrokerError, ClientError
from ottla.protocol.errors import ErrorCode

GROUP_LANE = "group"
PROTOCOLS = ("auto", "consumer", "classic")
LEAVE_TIMEOUT_MS = 5_000

# After these the consumer is no longer a member.
REMOVED = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_MEMBER_EPOCH,
)


class RebalanceListener:
    """Called during `poll` when partitions are assigned, revoked or lost. Override what you need.

    Revoked partitions are still owned during the call: commit offsets there. Lost ones may belong to another
    member already; by default they are treated like revoked ones.
    """

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        """The partitions that were added; their positions are set."""

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        """The partitions that are revoked after the call."""

    async def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        """The partitions that were lost: their offsets cannot be committed."""
        await self.on_partitions_revoked(lost)


class Subscription(NamedTuple):
    """Topics by name, or those that a pattern matches."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None


class GroupOptions(NamedTuple):
    """Options of a member."""

    group_id: str
    protocol: str = "auto"
    instance_id: str | None = None
    rack: str | None = None
    assignor: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000

    def checked(self) -> Self:
        """Raises ValueError."""
        if not self.group_id:
            raise ValueError("group_id: a group needs a name")
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"group_protocol={self.protocol!r}: expected one of {', '.join(PROTOCOLS)}")
        return self


class Change:
    """Partitions to revoke and to assign; `done` when the consumer has done both."""

    __slots__ = ("assign", "done", "lost", "revoke")

    def __init__(
        self, revoke: Iterable[TopicPartition], assign: Iterable[TopicPartition], *, lost: bool = False
    ) -> None:
        self.revoke = sorted(revoke)
        self.assign = sorted(assign)
        self.lost = lost
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class NotOffered(Exception):
    """The group cannot be joined with this protocol, but maybe with the other."""


class GroupProtocol(Protocol):
    """One of the two protocols between members and coordinator."""

    async def run(self) -> None:
        """Join and stay a member until cancelled."""

    async def leave(self) -> None:
        """Leave the group."""


class Protocols(NamedTuple):
    """How to create each protocol."""

    consumer: Callable[[Membership], GroupProtocol]
    classic: Callable[[Membership], GroupProtocol]


class Membership:
    """One consumer in one group. Protocols (classes with `run` and `leave`) send the requests."""

    def __init__(
        self,
        cluster: ClusterClient,
        options: GroupOptions,
        subscription: Subscription,
        coordinators: Coordinators,
        protocols: Protocols,
    ) -> None:
        self.cluster = cluster
        self.options = options
        self.subscription = subscription
        self.subscription_changed = False
        self.coordinators = coordinators
        self._protocols = protocols
        self.identity = MemberIdentity(instance_id=options.instance_id)
        self.owned: dict[TopicPartition, None] = {}
        self.change: Change | None = None
        # Set when poll has a change to make, when the subscription changes, when the consumer polls again.
        self.woken = asyncio.Event()
        self._changed = asyncio.Event()
        self._polled_again = asyncio.Event()
        self.polled_s = time.monotonic()
        self._protocol: GroupProtocol | None = None
        self._task: asyncio.Task[None] | None = None

    # Called by the consumer.

    def poll(self) -> Change | None:
        """Record a poll; returns the change to make now. Raises the error that ended the membership."""
        self.polled_s = time.monotonic()
        self._polled_again.set()
        self.woken.clear()
        if self._task is not None and self._task.done():
            task, self._task = self._task, None
            task.result()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"ottla-group-{self.options.group_id}")
        return self.change

    def settled(self, change: Change) -> None:
        """The consumer has made the change."""
        self.owned = {key: None for key in self.owned if key not in change.revoke}
        self.owned.update(dict.fromkeys(change.assign))
        if self.change is change:
            self.change = None
        if not change.done.done():
            change.done.set_result(None)

    def subscribe(self, subscription: Subscription) -> None:
        if subscription != self.subscription:
            self.subscription_changed = True
            self.subscription = subscription
        self._changed.set()

    async def leave(self) -> None:
        """Leave the group, so that its partitions are reassigned before the session times out."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if self._protocol is not None and self.identity.member_id:
            try:
                async with asyncio.timeout(LEAVE_TIMEOUT_MS / 1000):
                    await self._protocol.leave()
            except (ClientError, TimeoutError):
                pass  # the session will time out
        self.identity = MemberIdentity(instance_id=self.options.instance_id)

    # Called by protocols.

    def propose(self, revoke: Iterable[TopicPartition], assign: Iterable[TopicPartition]) -> Change:
        assert self.change is None
        self.change = Change(revoke, assign)
        self.woken.set()
        return self.change

    def lose(self) -> Change | None:
        """The consumer is no longer a member and has lost its partitions; None if it had none."""
        old, self.change = self.change, None
        if old is not None and not old.done.done():
            old.done.cancel()
        if not self.owned:
            return None
        self.change = Change(self.owned, (), lost=True)
        self.woken.set()
        return self.change

    @property
    def is_polled(self) -> bool:
        return (time.monotonic() - self.polled_s) * 1000 <= self.options.max_poll_interval_ms

    async def wait_for_poll(self) -> None:
        while not self.is_polled:
            self._polled_again.clear()
            await self._polled_again.wait()

    async def pause(self, wait_ms: float, change: Change | None = None) -> None:
        """Wait, but not longer than until the change is made or the subscription changes."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + wait_ms / 1000
        while not self.subscription_changed and not (change is not None and change.done.done()):
            left_s = end_s - loop.time()
            if left_s <= 0:
                return
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                waited: list[asyncio.Future[Any]] = [changed] if change is None else [changed, change.done]
                await asyncio.wait(waited, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()

    async def _run(self) -> None:
        try:
            if self.options.protocol != "classic":
                try:
                    self._protocol = self._protocols.consumer(self)
                    await self._protocol.run()
                except NotOffered as error:
                    if self.options.protocol == "consumer":
                        assert isinstance(error.__cause__, ClientError)
                        raise error.__cause__ from None
            self._protocol = self._protocols.classic(self)
            await self._protocol.run()
        finally:
            self.woken.set()


def is_removed(error: ClientError) -> bool:
    """Whether the error means that the consumer is not a member of this generation."""
    return isinstance(error, BrokerError) and error.code in REMOVED
