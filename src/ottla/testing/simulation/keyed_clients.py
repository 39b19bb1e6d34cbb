"""Clients of a compacted topic: they write keys, delete them again, and read over gaps.

A record is written down as `key#number`, a tombstone as `key#number!`. Each key has one writer, who counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_response import PartitionData
from ottla.records.batch import CorruptBatch, crc_ok, iter_headers
from ottla.records.build import build_batch
from ottla.records.record import iter_records
from ottla.testing.simulation.clients import NotNow
from ottla.testing.simulation.consumers import Consumer
from ottla.testing.simulation.history import PartitionName
from ottla.testing.simulation.producers import Batch, Producer
from ottla.testing.simulation.world import World

KEYS = 40  # of a producer in a partition; few of them are written often, most now and then
SKEW = 3
TOMBSTONE_CHANCE = 0.15
TEXT_HEADER = "text"


class Entry(NamedTuple):
    key: str
    number: int
    deleted: bool

    @property
    def text(self) -> str:
        return f"{self.key}#{self.number}{'!' if self.deleted else ''}"


def parse_entry(text: str) -> Entry:
    key, _, number = text.partition("#")
    return Entry(key, int(number.rstrip("!")), number.endswith("!"))


class KeyedProducer(Producer):
    def _new_batch(self, index: int, producer: tuple[int, int], sequence: int) -> Batch:
        entries = []
        for _ in range(self.rng.randint(1, self._records_max)):
            number = self._numbers[index]
            self._numbers[index] = number + 1
            key = f"{self.name}.{index}.{int(self.rng.random() ** SKEW * KEYS)}"
            entries.append(Entry(key, number, self.rng.random() < TOMBSTONE_CHANCE))
        values = tuple(entry.text for entry in entries)
        operation = self.world.history.invoke(self.name, self.kind, PartitionName(self.topic, index), values)
        rows = [
            (
                self.world.now_ms,
                entry.key.encode(),
                None if entry.deleted else b"x" * self.rng.randint(0, 60),
                ((TEXT_HEADER, entry.text.encode()),),
            )
            for entry in entries
        ]
        data = build_batch(
            rows,
            codec=self.rng.choice((0, 0, 0, 1)),
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
        )
        return Batch(operation, sequence, bytes(data))


class KeyedConsumer(Consumer):
    """Goes on behind every batch that it was given, whether or not records are left in it."""

    async def _follow(self, index: int) -> None:
        history = self.world.history
        name = PartitionName(self.topic, index)
        while not self.stopping:
            position = self.positions[index]
            try:
                data = await self._fetch(index, position)
            except NotNow:
                self.forget_leader(index)
                await self.back_off()
                continue
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._out_of_range(name, position, data)
                self.forget_leader(index)
                await self.back_off()
                continue
            self._saw_watermark(name, position, data)
            for offset, text in self._entries(name, data, index):
                history.read(self.name, name, offset, text)

    def _entries(self, name: PartitionName, data: PartitionData, index: int) -> list[tuple[int, str]]:
        """What is new, and the position behind it."""
        try:
            found, end = entries_in(bytes(data.records or b""), self.positions[index])
        except CorruptBatch as error:
            self.world.history.surprise(self.name, f"{name}@{self.positions[index]}: {error}")
            return []
        self.positions[index] = max(self.positions[index], end)
        return found

    async def read_all(self, index: int) -> list[tuple[int, str]]:
        name = PartitionName(self.topic, index)
        found: list[tuple[int, str]] = []
        self.positions[index] = 0
        while True:
            try:
                data = await self._fetch(index, self.positions[index])
                if data.error_code:
                    raise NotNow(f"{name}: {data.error_code}")
            except NotNow:
                self.forget_leader(index)
                await self.back_off()
                continue
            before = self.positions[index]
            found += self._entries(name, data, index)
            if self.positions[index] >= data.high_watermark:
                return found
            if self.positions[index] == before:
                await self.back_off()


def entries_in(batches: bytes, position: int = 0) -> tuple[list[tuple[int, str]], int]:
    """(offset, text) of the records from `position` on, and the offset behind; raises CorruptBatch."""
    found: list[tuple[int, str]] = []
    end = position
    for start, header in iter_headers(batches):
        if not crc_ok(batches, start, header):
            raise CorruptBatch(f"the batch at offset {header.base_offset} fails its checksum")
        if not header.is_control:
            found += [
                (record.offset, _text_of(record.headers))
                for record in iter_records(batches, start, header)
                if record.offset >= position
            ]
        end = header.next_offset
    return found, end


def _text_of(headers: Iterable[tuple[str, bytes | None]]) -> str:
    return next((value or b"").decode("latin-1") for name, value in headers if name == TEXT_HEADER)


def new_producers(world: World, topic: str, partitions: int, count: int) -> list[KeyedProducer]:
    return [
        KeyedProducer(world, f"k{number}", topic, partitions, pause_s=(0.0, 0.2))
        for number in range(1, count + 1)
    ]
