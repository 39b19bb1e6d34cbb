"""Consumers that record what they read and the high watermarks they received."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ottla.client import Connection
from ottla.client.errors import ClientError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.fetch_response import FetchResponse, PartitionData
from ottla.protocol.versions import FETCH_TOPIC_IDS_SINCE
from ottla.records.batch import CorruptBatch
from simulator.clients.base import REQUEST_TIMEOUT_MS, Client, RetryLater, values_in
from simulator.history.operations import PartitionName
from simulator.world import World

FETCH_WAIT_MS = 200
FETCH_BYTES = 64 * 1024
MOVE_CHANCE = 0.05


class Consumer(Client):
    """Reads every partition from the leader, from the beginning, until `stopping`."""

    rack = ""
    isolation_level = 0

    def __init__(self, world: World, name: str, topic: str, partitions: int) -> None:
        super().__init__(world, name, topic)
        self.partitions = partitions
        self.stopping = False
        self.positions = dict.fromkeys(range(partitions), 0)

    async def run(self) -> None:
        await asyncio.gather(*(self._follow(index) for index in range(self.partitions)))

    async def _follow(self, index: int) -> None:
        name = PartitionName(self.topic, index)
        while not self.stopping:
            position = self.positions[index]
            try:
                data = await self._fetch(index, position)
            except RetryLater:
                self.forget_leader(index)
                await self.back_off()
                continue
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._out_of_range(name, position, data)
                self.forget_leader(index)
                await self.back_off()
                continue
            self._take(name, position, data)

    def _take(self, name: PartitionName, position: int, data: PartitionData) -> None:
        """Record a fetch response and advance the position."""
        self._saw_watermark(name, position, data)
        found, self.positions[name.partition] = self._visible(name, data, position)
        for offset, value in found:
            self.world.history.read(self.name, name, offset, value)

    def _out_of_range(self, name: PartitionName, position: int, data: PartitionData) -> None:
        self.world.history.lost_position(self.name, name, position)
        self.positions[name.partition] = max(0, data.log_start_offset)

    def _saw_watermark(self, name: PartitionName, position: int, data: PartitionData) -> None:
        self.world.history.saw_watermark(self.name, name, data.high_watermark, position)

    async def read_all(self, index: int) -> list[tuple[int, str]]:
        """Read a partition from the beginning to the end, with retries."""
        found: list[tuple[int, str]] = []
        name = PartitionName(self.topic, index)
        position = 0
        while True:
            data = await self.fetch_with_retries(index, position)
            position = max(position, data.log_start_offset)
            new, behind = self._visible(name, data, position)
            found += new
            if behind == position:
                if self._is_end(data, position):
                    return found
                await self.back_off()
            position = behind

    def _is_end(self, data: PartitionData, position: int) -> bool:
        return position >= data.high_watermark

    async def fetch_with_retries(self, index: int, position: int) -> PartitionData:
        """Fetch from `position`, with retries."""
        while True:
            try:
                data = await self._fetch(index, position)
                if not data.error_code:
                    return data
            except RetryLater:
                pass
            self.forget_leader(index)
            await self.back_off()

    async def source_of(self, index: int) -> Connection:
        """Return a connection to the node to fetch from."""
        return await self.leader_of(index)

    def epoch_of(self, index: int) -> int:
        """The leader epoch to send, so that a deposed leader rejects the fetch."""
        return self.epochs.get(index, -1)

    async def _fetch(self, index: int, position: int) -> PartitionData:
        connection = await self.source_of(index)
        partition = FetchPartition(
            partition=index,
            fetch_offset=position,
            partition_max_bytes=FETCH_BYTES,
            current_leader_epoch=self.epoch_of(index),
        )
        if connection.version_for(FetchRequest.API_KEY) >= FETCH_TOPIC_IDS_SINCE:
            topic = FetchTopic(topic_id=self.topic_id, partitions=[partition])
        else:
            topic = FetchTopic(topic=self.topic, partitions=[partition])
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=self.isolation_level,
            topics=[topic],
            rack_id=self.rack,
        )
        try:
            answer = await connection.request(request, FetchResponse, timeout_ms=REQUEST_TIMEOUT_MS)
        except ClientError as error:
            raise RetryLater(str(error)) from error
        if answer.error_code:
            raise RetryLater(f"fetch: {answer.error_code}")
        data = answer.responses[0].partitions[0]
        if data.error_code and data.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            raise RetryLater(f"fetch: {data.error_code}")
        return data

    def _visible(
        self, name: PartitionName, data: PartitionData, position: int
    ) -> tuple[list[tuple[int, str]], int]:
        """Return the visible records and the next position."""
        found = list(self._records(name, data, position))
        return found, found[-1][0] + 1 if found else position

    def _records(self, name: PartitionName, data: PartitionData, position: int) -> Iterable[tuple[int, str]]:
        """(offset, value) from `position` on; stops at a corrupt batch and records a surprise."""
        try:
            yield from values_in(bytes(data.records or b""), position)
        except CorruptBatch as error:
            self.world.history.surprise(self.name, f"{name}@{position}: {error}")


class AnyReplicaConsumer(Consumer):
    """Reads from any in-sync replica, and switches replicas at random.

    It sends no leader epoch, and may reach a follower that lags behind the previous one or a deposed leader:
    only the records that they return are checked.
    """

    rack = "anywhere"

    def __init__(self, world: World, name: str, topic: str, partitions: int) -> None:
        super().__init__(world, name, topic, partitions)
        self._sources: dict[int, tuple[str, int]] = {}

    async def source_of(self, index: int) -> Connection:
        if index not in self._sources or self.rng.random() < MOVE_CHANCE:
            await self.refresh()
            if not self.replicas.get(index):
                raise RetryLater(f"{self.topic}-{index} has no replica in sync")
            self._sources[index] = self.rng.choice(self.replicas[index])
        try:
            return await self.connection(self._sources[index])
        except ClientError as error:
            raise RetryLater(str(error)) from error

    def forget_leader(self, index: int) -> None:
        self._sources.pop(index, None)

    def _out_of_range(self, name: PartitionName, position: int, data: PartitionData) -> None:
        return None

    def _saw_watermark(self, name: PartitionName, position: int, data: PartitionData) -> None:
        return None

    def epoch_of(self, index: int) -> int:
        return -1
