"""The consumer: reads partitions that it assigns to itself, or shares topics with the others of its group."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Self

from ottla.client.aio.cluster import ClusterClient, ClusterHandle
from ottla.client.consumer.fetcher import Fetcher, FetchSettings, Start, timestamp_ms_of
from ottla.client.consumer.group import ConsumerGroup
from ottla.client.consumer.membership import GroupOptions, RebalanceListener, Subscription
from ottla.client.core.cluster import TopicPartition
from ottla.client.core.consumer_state import ConsumedRecord, PartitionState
from ottla.client.core.group_offsets import MemberIdentity
from ottla.client.core.group_types import CommittedOffset
from ottla.client.core.offsets import OffsetAt
from ottla.client.errors import ClientError
from ottla.client.options import ISOLATION_LEVELS, ClientOptions

__all__ = ["ISOLATION_LEVELS", "Consumer", "Start", "timestamp_ms_of"]

OUT_OF_RANGE_CHOICES = ("error", "beginning", "end")
RECORDS_PER_POLL = 500


class Consumer:
    """Reads records of the partitions it is given.

        async with Consumer("localhost:9092") as consumer:
            await consumer.assign("orders", start="beginning")
            async for record in consumer:
                print(record.offset, record.value)

    With a `group_id` it shares topics with the other consumers of the group, and continues at the offsets
    that the group has committed:

        async with Consumer("localhost:9092", group_id="billing") as consumer:
            consumer.subscribe("orders")
            async for record in consumer:
                print(record.partition, record.value)

    Offsets are committed every `auto_commit_interval_ms`, before partitions are revoked and at the end of the
    block: never for a record that is still being processed. If the block ends by an exception nothing more
    is committed, and the records since are read again. With `auto_commit=False`, only `commit` commits.
    `group_protocol` is "consumer" (KIP-848: members continue while others join and leave), "classic", or
    "auto": the first where the cluster offers it.

    With isolation_level="read_committed" records of transactions are returned after these are committed, and
    those of aborted ones never; reading stops at the first transaction that is still open.
    """

    def __init__(
        self,
        cluster: ClusterClient | ClientOptions | str | Sequence[str],
        *,
        out_of_range: str = "error",
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 50 * 1024 * 1024,
        partition_max_bytes: int = 1024 * 1024,
        client_id: str | None = None,
        group_id: str | None = None,
        group_protocol: str = "auto",
        group_instance_id: str | None = None,
        group_assignor: str | None = None,
        rack: str | None = None,
        auto_commit: bool = True,
        auto_commit_interval_ms: float = 5_000,
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        max_poll_interval_ms: int = 300_000,
        isolation_level: str | None = None,
    ) -> None:
        if out_of_range not in OUT_OF_RANGE_CHOICES:
            raise ValueError(
                f"out_of_range={out_of_range!r}: expected one of {', '.join(OUT_OF_RANGE_CHOICES)}"
            )
        self._handle = ClusterHandle(cluster, client_id=client_id)
        self.cluster = self._handle.cluster
        options = self.cluster.options.changed(isolation_level=isolation_level)
        self._fetcher = Fetcher(
            self.cluster,
            FetchSettings(
                out_of_range,
                fetch_min_bytes,
                fetch_max_wait_ms,
                fetch_max_bytes,
                partition_max_bytes,
                read_committed=options.isolation_level == "read_committed",
            ),
        )
        self._group: ConsumerGroup | None = None
        if group_id is not None:
            group_options = GroupOptions(
                group_id,
                group_protocol,
                group_instance_id,
                rack,
                group_assignor,
                session_timeout_ms,
                heartbeat_interval_ms,
                max_poll_interval_ms,
            )
            self._group = ConsumerGroup(
                self.cluster,
                self._fetcher,
                group_options.checked(),
                auto_commit_interval_ms if auto_commit else None,
            )
        self._closed = False

    # Partitions.

    async def assign(
        self, topic: str, partitions: Iterable[int] | None = None, *, start: Start = "beginning"
    ) -> list[int]:
        """Read these partitions of a topic (None: all) from `start` on; adds to the assignment."""
        if self._is_member:
            raise ClientError("the group assigns partitions: use another consumer for assign()")
        info = await self.cluster.topic(topic)
        chosen = sorted(info.partitions) if partitions is None else list(partitions)
        for partition in chosen:
            await self.cluster.retrying(partial(self.cluster.partition, topic, partition))
        offsets = await self._fetcher.resolve({(topic, partition): start for partition in chosen})
        for key, offset in offsets.items():
            self._fetcher.add(key, offset)
        return chosen

    def unassign(self, topic: str, partitions: Iterable[int] | None = None) -> None:
        """Stop reading these partitions (None: all of the topic)."""
        chosen = None if partitions is None else set(partitions)
        assigned = [key for key in self._fetcher.states if key[0] == topic]
        self._fetcher.remove([key for key in assigned if chosen is None or key[1] in chosen])

    def subscribe(
        self,
        *topics: str | Iterable[str],
        pattern: str | None = None,
        start: Start = "beginning",
        listener: RebalanceListener | None = None,
    ) -> None:
        """Share these topics (or all that a regular expression matches) with the other members of the group.

        Topics are names, or lists of names as other clients take them. Reading continues at the committed
        offsets; `start` is for partitions without one. Called again, it changes the subscription.
        """
        if self._group is None:
            raise ClientError("subscribe needs a group: create the consumer with group_id=..., or use assign")
        names = [name for each in topics for name in ((each,) if isinstance(each, str) else each)]
        if bool(names) == (pattern is not None):
            raise ValueError("subscribe takes names of topics, or a pattern")
        if not self._is_member and self._fetcher.states:
            raise ClientError("partitions are assigned manually: subscribe with another consumer")
        self._group.subscribe(Subscription(tuple(dict.fromkeys(names)), pattern), start, listener)

    async def seek(self, topic: str, partition: int, start: Start) -> None:
        """Continue reading an assigned partition elsewhere."""
        state = self._state(topic, partition)
        offsets = await self._fetcher.resolve({(topic, partition): start})
        state.seek(offsets[topic, partition])

    @property
    def _is_member(self) -> bool:
        return self._group is not None and self._group.membership is not None

    @property
    def assignment(self) -> list[TopicPartition]:
        return list(self._fetcher.states)

    def position(self, topic: str, partition: int) -> int:
        """The offset of the next record that will be returned."""
        return self._state(topic, partition).next_offset

    def high_watermark(self, topic: str, partition: int) -> int:
        """The high watermark of the last fetch; -1 before the first."""
        return self._state(topic, partition).high_watermark

    def last_stable_offset(self, topic: str, partition: int) -> int:
        """The last stable offset of the last fetch; -1 before the first."""
        return self._state(topic, partition).last_stable_offset

    def _state(self, topic: str, partition: int) -> PartitionState:
        state = self._fetcher.states.get((topic, partition))
        if state is None:
            raise ClientError(f"topic {topic!r} partition {partition} is not assigned: call assign first")
        return state

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAt]:
        """For each (topic, partition) the offset at a timestamp in ms, EARLIEST, LATEST or MAX_TIMESTAMP."""
        return await self.cluster.list_offsets(wanted, read_committed=read_committed)

    # Records.

    async def poll(
        self, records_max: int = RECORDS_PER_POLL, *, timeout_ms: float = 1_000
    ) -> list[ConsumedRecord]:
        """The next records: as soon as there are any, or none when the time-out passes.

        Members of a group must poll: that is where partitions are assigned and revoked, and where offsets of
        all records returned before are committed.
        """
        records = await self._poll(records_max, timeout_ms)
        self._fetcher.all_consumed()
        return records

    async def __aiter__(self) -> AsyncIterator[ConsumedRecord]:
        """Every record from here on, without an end: waits at the end of the log for more."""
        while not self._closed:
            for record in await self._poll(RECORDS_PER_POLL, 1_000):
                state = self._fetcher.states.get((record.topic, record.partition))
                if state is not None:
                    state.consumed = record.offset + 1
                yield record
                if self._group is not None:
                    await self._group.commit_if_due()
            self._fetcher.all_consumed()

    async def _poll(self, records_max: int, timeout_ms: float) -> list[ConsumedRecord]:
        deadline = self.cluster.core.deadline(timeout_ms)
        fetcher, group = self._fetcher, self._group
        while True:
            membership = None
            if group is not None:
                await group.commit_if_due()
                membership = group.membership
            if group is not None and membership is not None:
                await group.reconcile()
            elif not fetcher.states:
                calls = "assign" if group is None else "subscribe or assign"
                raise ClientError(f"nothing to read: {calls} partitions first")
            records = fetcher.take(records_max)
            await fetcher.start()
            if records:
                return records
            fetcher.raise_error()
            if deadline.passed:
                return []
            await fetcher.wait(deadline, None if membership is None else membership.woken)

    # Group.

    @property
    def read_committed(self) -> bool:
        return self._fetcher.settings.read_committed

    @property
    def group_id(self) -> str | None:
        return None if self._group is None else self._group.options.group_id

    @property
    def member_id(self) -> str | None:
        """The id of this consumer in its group; None before it has joined, and without a group."""
        return None if self._group is None else self._group.member_id

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset | int] | None = None) -> None:
        """Commit the offset after the last returned record of each partition, or these offsets.

        An offset is that of the next record to be read. Raises BrokerError if this consumer is no longer a
        member of its group, or not in its present generation (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION,
        FENCED_MEMBER_EPOCH, ...): another member will read the same records.
        """
        group = self._with_group("commit")
        await group.commit(self.consumed_offsets() if offsets is None else offsets)

    async def committed(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of the group in these partitions (None: in all that have one)."""
        return await self._with_group("committed").committed(partitions)

    def consumed_offsets(self) -> dict[TopicPartition, int]:
        """The offset after the last returned record of each partition."""
        return self._fetcher.consumed_offsets()

    def member_identity(self) -> MemberIdentity:
        """The identity under which this consumer commits. Raises if its partitions are lost."""
        return MemberIdentity() if self._group is None else self._group.member_identity()

    async def seek_to_committed(self) -> None:
        """Go back to the committed offsets, as after an aborted transaction; without one, to `start`."""
        await self._with_group("seek_to_committed").seek_to_committed()

    def _with_group(self, what: str) -> ConsumerGroup:
        if self._group is None:
            raise ClientError(f"{what} needs a group: create the consumer with group_id=...")
        return self._group

    # Closing.

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The records returned last may not be processed: without a commit they are read again.
        await self._close(commit=kind is None)

    async def close(self) -> None:
        """Commit (with `auto_commit`), leave the group, and stop."""
        await self._close(commit=True)

    async def _close(self, *, commit: bool) -> None:
        already, self._closed = self._closed, True
        await self._fetcher.close()
        if not already and self._group is not None:
            await self._group.leave(commit=commit)
        await self._handle.close()
