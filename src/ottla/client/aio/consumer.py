"""The consumer: reads partitions that it assigns to itself, or shares topics with the others of its group."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any

from ottla.client.admin.types import OffsetAt
from ottla.client.aio.cluster import ClusterClient
from ottla.client.core.aborted import AbortedTransactions
from ottla.client.core.consumer_state import ConsumedRecord, PartitionState
from ottla.client.core.offsets import EARLIEST, LATEST, TopicPartition
from ottla.client.core.retry import Backoff, Deadline
from ottla.client.errors import BrokerError, ClientError, broker_error, raise_for
from ottla.client.groups.membership import GroupOptions
from ottla.client.groups.reading import GroupReading, checked_options
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.fetch_response import FetchResponse, PartitionData

FETCH_LANE = "fetch"
FETCH_VERSION_WITHOUT_TOPIC_IDS = 12
OUT_OF_RANGE_CHOICES = ("error", "beginning", "end")
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")

# "beginning", "end", an offset, or a point in time (the first record at or after it).
Start = str | int | datetime


def timestamp_ms_of(moment: datetime) -> int:
    """Milliseconds since 1970; a datetime without a zone is local time, as everywhere in Python."""
    return round(moment.timestamp() * 1000)


class Consumer(GroupReading):
    """Reads records of the partitions it is given.

        async with Consumer("localhost:9092") as consumer:
            await consumer.assign("orders", start="beginning")
            async for record in consumer:
                print(record.offset, record.value)

    With a `group_id` it shares topics with the other consumers of the group, and goes on where the group was:

        async with Consumer("localhost:9092", group_id="billing") as consumer:
            consumer.subscribe("orders")
            async for record in consumer:
                print(record.partition, record.value)

    Offsets are committed every `auto_commit_interval_ms`, before partitions are given away and at the end of
    the block: never for a record that is still being worked on. If the block ends by an exception nothing
    more is committed, and the records since are read again. With `auto_commit=False`, `commit` does it when
    you say so. `group_protocol` is "consumer" (KIP-848: nobody stops when others come and go), "classic", or
    "auto": the first where the cluster offers it.

    With isolation_level="read_committed" records of transactions are handed out when these are committed, and
    those of aborted ones never; reading stops at the first transaction that is still open.
    """

    def __init__(
        self,
        cluster: ClusterClient | str | Sequence[str],
        *,
        out_of_range: str = "error",
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 50 * 1024 * 1024,
        partition_max_bytes: int = 1024 * 1024,
        client_id: str = "ottla",
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
        isolation_level: str = "read_uncommitted",
    ) -> None:
        if isolation_level not in ISOLATION_LEVELS:
            raise ValueError(
                f"isolation_level={isolation_level!r}: expected one of {', '.join(ISOLATION_LEVELS)}"
            )
        if out_of_range not in OUT_OF_RANGE_CHOICES:
            raise ValueError(
                f"out_of_range={out_of_range!r}: expected one of {', '.join(OUT_OF_RANGE_CHOICES)}"
            )
        self._group_options = None
        if group_id is not None:
            options = GroupOptions(
                group_id,
                group_protocol,
                group_instance_id,
                rack,
                group_assignor,
                session_timeout_ms,
                heartbeat_interval_ms,
                max_poll_interval_ms,
            )
            self._group_options = checked_options(options)
        super().__init__(cluster, client_id=client_id)
        self._auto_commit = auto_commit
        self._auto_commit_interval_ms = auto_commit_interval_ms
        self.out_of_range = out_of_range
        self.read_committed = isolation_level == "read_committed"
        self.fetch_min_bytes = fetch_min_bytes
        self.fetch_max_wait_ms = fetch_max_wait_ms
        self.fetch_max_bytes = fetch_max_bytes
        self.partition_max_bytes = partition_max_bytes
        self._states: dict[TopicPartition, PartitionState] = {}
        self._fetches: dict[int, asyncio.Task[None]] = {}
        self._errors: list[ClientError] = []
        self._closed = False

    # What users call.

    async def assign(
        self, topic: str, partitions: Iterable[int] | None = None, *, start: Start = "beginning"
    ) -> list[int]:
        """Read these partitions of a topic (None: all of them) from `start` on; adds to what is assigned."""
        if self._membership is not None:
            raise ClientError("the group assigns partitions: assign by hand with another consumer")
        info = await self.cluster.topic(topic)
        chosen = sorted(info.partitions) if partitions is None else list(partitions)
        for partition in chosen:
            await self.cluster.retrying(partial(self.cluster.partition, topic, partition))
        offsets = await self._resolve({(topic, partition): start for partition in chosen})
        for key, offset in offsets.items():
            self._add_state(key, offset)
        return chosen

    def unassign(self, topic: str, partitions: Iterable[int] | None = None) -> None:
        """Read these partitions (None: all of the topic) no longer."""
        chosen = None if partitions is None else set(partitions)
        for key in [key for key in self._states if key[0] == topic and (chosen is None or key[1] in chosen)]:
            self._states.pop(key).seek(-1)

    async def seek(self, topic: str, partition: int, start: Start) -> None:
        """Go on reading an assigned partition elsewhere."""
        state = self._state(topic, partition)
        offsets = await self._resolve({(topic, partition): start})
        state.seek(offsets[topic, partition])

    @property
    def assignment(self) -> list[TopicPartition]:
        return list(self._states)

    def position(self, topic: str, partition: int) -> int:
        """The offset of the next record that will be handed out."""
        return self._state(topic, partition).next_offset

    def high_watermark(self, topic: str, partition: int) -> int:
        """The end of what can be read, as the last fetch saw it; -1 before the first."""
        return self._state(topic, partition).high_watermark

    def last_stable_offset(self, topic: str, partition: int) -> int:
        """Where the first open transaction begins, as the last fetch saw it; -1 before the first."""
        return self._state(topic, partition).last_stable_offset

    async def poll(self, records_max: int = 500, *, timeout_ms: float = 1_000) -> list[ConsumedRecord]:
        """The next records: as soon as there are any, or none when the timeout passes.

        Members of a group must poll: it is where partitions change hands, and where offsets are committed of
        all that was handed out before.
        """
        records = await self._poll(records_max, timeout_ms)
        self._all_consumed()
        return records

    async def __aiter__(self) -> AsyncIterator[ConsumedRecord]:
        """Every record from here on, without an end: waits at the end of the log for more."""
        while not self._closed:
            for record in await self._poll(500, 1_000):
                state = self._states.get((record.topic, record.partition))
                if state is not None:
                    state.consumed = record.offset + 1
                yield record
                await self._commit_if_due()
            self._all_consumed()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What was handed out last may not be done: without a commit somebody reads it again.
        await self._close(commit=kind is None)

    async def close(self) -> None:
        """Commit (with `auto_commit`), leave the group, and stop."""
        await self._close(commit=True)

    async def _close(self, *, commit: bool) -> None:
        already, self._closed = self._closed, True
        tasks, self._fetches = list(self._fetches.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if not already:
            await self._leave_group(commit=commit)
        await super().close()

    def _all_consumed(self) -> None:
        for state in self._states.values():
            state.consumed = state.next_offset

    async def _poll(self, records_max: int, timeout_ms: float) -> list[ConsumedRecord]:
        deadline = Deadline(timeout_ms)
        while True:
            await self._commit_if_due()
            if self._membership is not None:
                await self._settle()
            elif not self._states:
                wish = "subscribe or assign" if self._group_options is not None else "assign"
                raise ClientError(f"nothing to read: {wish} partitions first")
            records = self._take(records_max)
            await self._start_fetches()
            if records:
                return records
            if self._errors:
                raise self._errors.pop(0)
            if deadline.passed:
                return []
            await self._wait_for_fetch(deadline)

    # Where to start.

    def _state(self, topic: str, partition: int) -> PartitionState:
        state = self._states.get((topic, partition))
        if state is None:
            raise ClientError(f"topic {topic!r} partition {partition} is not assigned: call assign first")
        return state

    async def _resolve(self, starts: dict[TopicPartition, Start]) -> dict[TopicPartition, int]:
        """Offsets for starting points."""
        fixed: dict[TopicPartition, int] = {}
        asked: dict[TopicPartition, int] = {}
        for key, start in starts.items():
            if start == "beginning":
                asked[key] = EARLIEST
            elif start == "end":
                asked[key] = LATEST
            elif isinstance(start, datetime):
                asked[key] = timestamp_ms_of(start)
            elif isinstance(start, int) and start >= 0:
                fixed[key] = start
            else:
                raise ValueError(f"start={start!r}: expected 'beginning', 'end', an offset or a datetime")
        found = {key: at.offset for key, at in (await self._list_offsets(asked)).items()}
        too_late = [key for key, offset in found.items() if offset < 0]
        if too_late:
            ends = await self._list_offsets(dict.fromkeys(too_late, LATEST))
            found.update({key: at.offset for key, at in ends.items()})
        return {**fixed, **found}

    async def _list_offsets(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, OffsetAt]:
        return await self.list_offsets(wanted, read_committed=self.read_committed)

    def _add_state(self, key: TopicPartition, offset: int) -> PartitionState:
        backoff = Backoff(self.cluster.retry_backoff_ms, self.cluster.retry_backoff_max_ms)
        state = self._states[key] = PartitionState(*key, offset, backoff)
        return state

    # Fetching.

    def _take(self, records_max: int) -> list[ConsumedRecord]:
        taken: list[ConsumedRecord] = []
        for key, state in list(self._states.items()):
            if state.has_records and len(taken) < records_max:
                taken += state.take(records_max - len(taken))
                # Whoever was served goes to the end of the queue, so that no partition starves the others.
                self._states[key] = self._states.pop(key)
        return taken

    async def _start_fetches(self) -> None:
        """A fetch to each leader that has none under way, for the partitions whose bytes are used up."""
        now_s = time.monotonic()
        wanted: dict[int, list[PartitionState]] = {}
        for state in self._states.values():
            if state.in_flight or state.has_records or state.not_before_s > now_s:
                continue
            try:
                leader = (await self.cluster.partition(state.topic, state.partition)).leader
            except ClientError as error:
                self._retry_or_report(state, error)
            else:
                wanted.setdefault(leader, []).append(state)
        for node_id, states in wanted.items():
            if node_id not in self._fetches:
                for state in states:
                    state.in_flight = True
                task = asyncio.create_task(self._fetch(node_id, states), name=f"ottla-fetch-{node_id}")
                self._fetches[node_id] = task

    async def _wait_for_fetch(self, deadline: Deadline) -> None:
        now_s = time.monotonic()
        pauses_s = [
            state.not_before_s - now_s for state in self._states.values() if state.not_before_s > now_s
        ]
        wait_s = min([deadline.left_ms / 1000, *pauses_s])
        waited: list[asyncio.Future[Any]] = list(self._fetches.values())
        woken = None
        if self._membership is not None:
            woken = asyncio.ensure_future(self._membership.woken.wait())
            waited.append(woken)
        if not waited:
            await asyncio.sleep(wait_s)
            return
        try:
            done, _ = await asyncio.wait(waited, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if woken is not None:
                woken.cancel()
        for task in done:
            task.result()

    async def _fetch(self, node_id: int, states: list[PartitionState]) -> None:
        generations = {(state.topic, state.partition): (state, state.generation) for state in states}
        try:
            response = await self._ask(node_id, states)
            raise_for(response.error_code, detail=f"broker {node_id} refused the fetch")
            for topic in response.responses:
                name = topic.topic or self.cluster.view.name_of(topic.topic_id) or ""
                for row in topic.partitions:
                    state, generation = generations.get((name, row.partition_index), (None, 0))
                    if state is not None and state.generation == generation:
                        await self._take_in(state, row)
        except ClientError as error:
            for state in states:
                self._retry_or_report(state, error)
        finally:
            for state in states:
                state.in_flight = False
            self._fetches.pop(node_id, None)

    async def _ask(self, node_id: int, states: list[PartitionState]) -> FetchResponse:
        connection = await self.cluster.connection_to(node_id, FETCH_LANE)
        topics: dict[str, FetchTopic] = {}
        at_most = None
        for state in states:
            info = await self.cluster.topic(state.topic)
            topic = topics.setdefault(state.topic, FetchTopic(topic=state.topic, topic_id=info.id))
            if info.id == ZERO_UUID:
                at_most = FETCH_VERSION_WITHOUT_TOPIC_IDS
            row = info.partitions.get(state.partition)
            topic.partitions.append(
                FetchPartition(
                    partition=state.partition,
                    current_leader_epoch=row.leader_epoch if row is not None else -1,
                    fetch_offset=state.next_offset,
                    partition_max_bytes=self.partition_max_bytes,
                )
            )
        request = FetchRequest(
            max_wait_ms=self.fetch_max_wait_ms,
            min_bytes=self.fetch_min_bytes,
            max_bytes=self.fetch_max_bytes,
            isolation_level=int(self.read_committed),
            topics=list(topics.values()),
        )
        timeout_ms = self.fetch_max_wait_ms + self.cluster.request_timeout_ms
        return await connection.request(request, FetchResponse, timeout_ms=timeout_ms, at_most=at_most)

    async def _take_in(self, state: PartitionState, row: PartitionData) -> None:
        """Take in the answer for one partition."""
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and self.out_of_range != "error":
            key = (state.topic, state.partition)
            state.seek((await self._resolve({key: self.out_of_range}))[key])
            return
        if row.error_code != ErrorCode.NONE:
            detail = (
                f"offset {state.next_offset}" if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE else None
            )
            if detail is not None:
                detail += " is not in the log: seek to 'beginning' or 'end', or set out_of_range"
            error = broker_error(row.error_code, topic=state.topic, partition=state.partition, detail=detail)
            self._retry_or_report(state, error)
            return
        state.failing_since_s = None
        state.backoff.reset()
        state.high_watermark = row.high_watermark
        state.last_stable_offset = row.last_stable_offset
        state.log_start_offset = row.log_start_offset
        if row.records is not None and len(row.records):
            aborted = None
            if self.read_committed:
                aborted = AbortedTransactions()
                aborted.learn(row)
            state.fetched(row.records, aborted)

    def _retry_or_report(self, state: PartitionState, error: ClientError) -> None:
        """Try again a little later; what does not pass, or lasts too long, is raised by the next poll."""
        now_s = time.monotonic()
        if state.failing_since_s is None:
            state.failing_since_s = now_s
        state.not_before_s = now_s + state.backoff.next_ms() / 1000
        if not error.retriable or now_s - state.failing_since_s > self.cluster.retry_timeout_ms / 1000:
            self._errors.append(error)
            state.failing_since_s = None
        if not isinstance(error, BrokerError) or error.stale_metadata:
            self.cluster.view.expire(state.topic)
