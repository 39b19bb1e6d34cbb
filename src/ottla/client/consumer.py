"""The consumer: reads assigned partitions from a chosen point on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from functools import partial

from ottla.client.cluster import ClusterClient, ClusterUser
from ottla.client.consumer_state import ConsumedRecord, PartitionState
from ottla.client.errors import BrokerError, ClientError, broker_error, raise_for
from ottla.client.offsets import EARLIEST, LATEST, OffsetQueries, TopicPartition
from ottla.client.retry import Backoff, Deadline
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.fetch_response import FetchResponse, PartitionData

FETCH_LANE = "fetch"
FETCH_VERSION_WITHOUT_TOPIC_IDS = 12
OUT_OF_RANGE_CHOICES = ("error", "beginning", "end")

# "beginning", "end", an offset, or a point in time (the first record at or after it).
Start = str | int | datetime


def timestamp_ms_of(moment: datetime) -> int:
    """Milliseconds since 1970; a datetime without a zone is local time, as everywhere in Python."""
    return round(moment.timestamp() * 1000)


class Consumer(OffsetQueries, ClusterUser):
    """Reads records of the partitions it is given; it belongs to no group and commits nothing.

    async with Consumer("localhost:9092") as consumer:
        await consumer.assign("orders", start="beginning")
        async for record in consumer:
            print(record.offset, record.value)
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
    ) -> None:
        if out_of_range not in OUT_OF_RANGE_CHOICES:
            raise ValueError(
                f"out_of_range={out_of_range!r}: expected one of {', '.join(OUT_OF_RANGE_CHOICES)}"
            )
        super().__init__(cluster, client_id=client_id)
        self.out_of_range = out_of_range
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
        info = await self.cluster.topic(topic)
        chosen = sorted(info.partitions) if partitions is None else list(partitions)
        for partition in chosen:
            await self.cluster.retrying(partial(self.cluster.partition, topic, partition))
        offsets = await self._resolve({(topic, partition): start for partition in chosen})
        for key, offset in offsets.items():
            backoff = Backoff(self.cluster.retry_backoff_ms, self.cluster.retry_backoff_max_ms)
            self._states[key] = PartitionState(*key, offset, backoff)
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

    async def poll(self, records_max: int = 500, *, timeout_ms: float = 1_000) -> list[ConsumedRecord]:
        """The next records: as soon as there are any, or none when the timeout passes."""
        deadline = Deadline(timeout_ms)
        while True:
            if not self._states:
                raise ClientError("nothing to read: assign partitions first")
            records = self._take(records_max)
            await self._start_fetches()
            if records:
                return records
            if self._errors:
                raise self._errors.pop(0)
            if deadline.passed:
                return []
            await self._wait_for_fetch(deadline)

    async def __aiter__(self) -> AsyncIterator[ConsumedRecord]:
        """Every record from here on, without an end: waits at the end of the log for more."""
        while not self._closed:
            for record in await self.poll():
                yield record

    async def close(self) -> None:
        self._closed = True
        tasks, self._fetches = list(self._fetches.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await super().close()

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
        found = {key: at.offset for key, at in (await self.list_offsets(asked)).items()}
        too_late = [key for key, offset in found.items() if offset < 0]
        if too_late:
            ends = await self.list_offsets(dict.fromkeys(too_late, LATEST))
            found.update({key: at.offset for key, at in ends.items()})
        return {**fixed, **found}

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
        if self._fetches:
            tasks = list(self._fetches.values())
            done, _ = await asyncio.wait(tasks, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        else:
            await asyncio.sleep(wait_s)

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
                        await self._settle(state, row)
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
            topics=list(topics.values()),
        )
        timeout_ms = self.fetch_max_wait_ms + self.cluster.request_timeout_ms
        return await connection.request(request, FetchResponse, timeout_ms=timeout_ms, at_most=at_most)

    async def _settle(self, state: PartitionState, row: PartitionData) -> None:
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
        state.log_start_offset = row.log_start_offset
        if row.records is not None and len(row.records):
            state.fetched(row.records)

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
