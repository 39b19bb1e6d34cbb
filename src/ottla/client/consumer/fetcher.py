"""Fetches the assigned partitions of a consumer, a request per leader at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from ottla.client.aio.cluster import ClusterClient
from ottla.client.core.aborted import AbortedTransactions
from ottla.client.core.cluster import TopicPartition
from ottla.client.core.consumer_state import ConsumedRecord, PartitionState
from ottla.client.core.offsets import EARLIEST, LATEST, OffsetAt
from ottla.client.core.retry import Deadline
from ottla.client.errors import ClientError, broker_error, raise_for
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.fetch_response import FetchResponse, PartitionData
from ottla.protocol.versions import FETCH_TOPIC_IDS_SINCE

FETCH_LANE = "fetch"

# "beginning", "end", an offset, or a point in time (the first record at or after it).
Start = str | int | datetime


def timestamp_ms_of(moment: datetime) -> int:
    """Milliseconds since 1970; a datetime without a zone is local time, as everywhere in Python."""
    return round(moment.timestamp() * 1000)


class FetchSettings(NamedTuple):
    """How a consumer fetches; `out_of_range` is "error", "beginning" or "end"."""

    out_of_range: str
    min_bytes: int
    max_wait_ms: int
    max_bytes: int
    partition_max_bytes: int
    read_committed: bool


class Fetcher:
    """The positions of a consumer and the records that it fetched but did not return yet."""

    def __init__(self, cluster: ClusterClient, settings: FetchSettings) -> None:
        self.cluster = cluster
        self.settings = settings
        self.states: dict[TopicPartition, PartitionState] = {}
        self._fetches: dict[int, asyncio.Task[None]] = {}
        self._errors: list[ClientError] = []

    async def close(self) -> None:
        tasks, self._fetches = list(self._fetches.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Positions.

    def add(self, key: TopicPartition, offset: int) -> PartitionState:
        state = self.states[key] = PartitionState(*key, offset, self.cluster.core.backoff())
        return state

    def remove(self, keys: Iterable[TopicPartition]) -> None:
        for key in keys:
            self.states.pop(key).seek(-1)

    def consumed_offsets(self) -> dict[TopicPartition, int]:
        return {key: state.consumed for key, state in self.states.items()}

    def all_consumed(self) -> None:
        """The caller has processed all records that were returned so far."""
        for state in self.states.values():
            state.consumed = state.next_offset

    async def resolve(self, starts: Mapping[TopicPartition, Start]) -> dict[TopicPartition, int]:
        """Offsets for starting points."""
        fixed: dict[TopicPartition, int] = {}
        wanted: dict[TopicPartition, int] = {}
        for key, start in starts.items():
            if start == "beginning":
                wanted[key] = EARLIEST
            elif start == "end":
                wanted[key] = LATEST
            elif isinstance(start, datetime):
                wanted[key] = timestamp_ms_of(start)
            elif isinstance(start, int) and start >= 0:
                fixed[key] = start
            else:
                raise ValueError(f"start={start!r}: expected 'beginning', 'end', an offset or a datetime")
        found = {key: at.offset for key, at in (await self._list_offsets(wanted)).items()}
        too_late = [key for key, offset in found.items() if offset < 0]
        if too_late:
            ends = await self._list_offsets(dict.fromkeys(too_late, LATEST))
            found.update({key: at.offset for key, at in ends.items()})
        return {**fixed, **found}

    async def _list_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAt]:
        return await self.cluster.list_offsets(wanted, read_committed=self.settings.read_committed)

    # Records.

    def take(self, records_max: int) -> list[ConsumedRecord]:
        taken: list[ConsumedRecord] = []
        for key, state in list(self.states.items()):
            if state.has_records and len(taken) < records_max:
                taken += state.take(records_max - len(taken))
                # To the end of the order, so that no partition starves the others.
                self.states[key] = self.states.pop(key)
        return taken

    def raise_error(self) -> None:
        """Raise the next error that cannot be retried, if there is one."""
        if self._errors:
            raise self._errors.pop(0)

    async def start(self) -> None:
        """Fetch from each leader without a request in flight the partitions that have no records left."""
        now_s = self.cluster.core.clock.now_s()
        wanted: dict[int, list[PartitionState]] = {}
        for state in list(self.states.values()):
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

    async def wait(self, deadline: Deadline, woken: asyncio.Event | None) -> None:
        """Wait for a response, for the end of a back-off, for `woken` or for the deadline."""
        now_s = self.cluster.core.clock.now_s()
        pauses_s = [
            state.not_before_s - now_s for state in self.states.values() if state.not_before_s > now_s
        ]
        wait_s = min([deadline.left_ms / 1000, *pauses_s])
        waited: list[asyncio.Future[Any]] = list(self._fetches.values())
        waking = None
        if woken is not None:
            waking = asyncio.ensure_future(woken.wait())
            waited.append(waking)
        if not waited:
            await asyncio.sleep(wait_s)
            return
        try:
            done, _ = await asyncio.wait(waited, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if waking is not None:
                waking.cancel()
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
                        await self._take_response(state, row, response)
        except ClientError as error:
            for state in states:
                self._retry_or_report(state, error)
        finally:
            for state in states:
                state.in_flight = False
            self._fetches.pop(node_id, None)

    async def _ask(self, node_id: int, states: list[PartitionState]) -> FetchResponse:
        settings = self.settings
        topics: dict[str, FetchTopic] = {}
        at_most = None
        for state in states:
            info = await self.cluster.topic(state.topic)
            topic = topics.setdefault(state.topic, FetchTopic(topic=state.topic, topic_id=info.id))
            if info.id == ZERO_UUID:
                at_most = FETCH_TOPIC_IDS_SINCE - 1
            row = info.partitions.get(state.partition)
            topic.partitions.append(
                FetchPartition(
                    partition=state.partition,
                    current_leader_epoch=row.leader_epoch if row is not None else -1,
                    fetch_offset=state.next_offset,
                    partition_max_bytes=settings.partition_max_bytes,
                )
            )
        request = FetchRequest(
            max_wait_ms=settings.max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            isolation_level=int(settings.read_committed),
            topics=list(topics.values()),
        )
        steps = self.cluster.core.ask_node(
            node_id,
            request,
            FetchResponse,
            at_most=at_most,
            timeout_ms=settings.max_wait_ms + self.cluster.options.request_timeout_ms,
            lane=FETCH_LANE,
        )
        return await self.cluster.run(steps)

    async def _take_response(
        self, state: PartitionState, row: PartitionData, response: FetchResponse
    ) -> None:
        """Process the response for one partition."""
        is_out_of_range = row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        if is_out_of_range and self.settings.out_of_range != "error":
            key, generation = (state.topic, state.partition), state.generation
            offset = (await self.resolve({key: self.settings.out_of_range}))[key]
            if state.generation == generation:  # otherwise the caller has sought elsewhere meanwhile
                state.seek(offset)
            return
        if row.error_code != ErrorCode.NONE:
            detail = None
            if is_out_of_range:
                detail = (
                    f"offset {state.next_offset} is not in the log: "
                    "seek to 'beginning' or 'end', or set out_of_range"
                )
            error = broker_error(row.error_code, topic=state.topic, partition=state.partition, detail=detail)
            self._retry_or_report(state, error)
            hint = row.current_leader
            if hint.leader_id >= 0:
                endpoints = [(each.node_id, each.host, each.port) for each in response.node_endpoints]
                self.cluster.view.hint(
                    state.topic, state.partition, hint.leader_id, hint.leader_epoch, endpoints
                )
            return
        state.failing_since_s = None
        state.backoff.reset()
        state.high_watermark = row.high_watermark
        state.last_stable_offset = row.last_stable_offset
        state.log_start_offset = row.log_start_offset
        if row.records is not None and len(row.records):
            aborted = None
            if self.settings.read_committed:
                aborted = AbortedTransactions()
                aborted.update(row)
            state.fetched(row.records, aborted)

    def _retry_or_report(self, state: PartitionState, error: ClientError) -> None:
        """Retry a little later; the next poll raises what is not retriable, or lasts too long."""
        now_s = self.cluster.core.clock.now_s()
        if state.failing_since_s is None:
            state.failing_since_s = now_s
        state.not_before_s = now_s + state.backoff.next_ms() / 1000
        limit_s = self.cluster.options.retry_timeout_ms / 1000
        if not error.retriable or now_s - state.failing_since_s > limit_s:
            self._errors.append(error)
            state.failing_since_s = None
        self.cluster.core.note(error, state.topic)
