"""Clients of a compacted topic: they write and delete keys, and read across gaps.

The history has records as `key#number` and tombstones as `key#number!`. Each key has one producer, which
numbers its records.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.protocol.messages.fetch_response import PartitionData
from ottla.records.batch import CorruptBatch, crc_ok, iter_headers
from ottla.records.build import build_batch
from ottla.records.record import iter_records
from simulator.clients.consumers import Consumer
from simulator.clients.producers import Batch, Producer
from simulator.history.operations import PartitionName
from simulator.world import World

KEYS = 40  # per producer and partition; few are written often, most rarely
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
    """Continues after every batch, whether or not it has records left."""

    def _visible(
        self, name: PartitionName, data: PartitionData, position: int
    ) -> tuple[list[tuple[int, str]], int]:
        try:
            return entries_in(bytes(data.records or b""), position)
        except CorruptBatch as error:
            self.world.history.surprise(self.name, f"{name}@{position}: {error}")
            return [], position


def entries_in(batches: bytes, position: int = 0) -> tuple[list[tuple[int, str]], int]:
    """(offset, text) of the records from `position` on, and the next offset; raises CorruptBatch."""
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
        end = max(end, header.next_offset)
    return found, end


def _text_of(headers: Iterable[tuple[str, bytes | None]]) -> str:
    return next((value or b"").decode("latin-1") for name, value in headers if name == TEXT_HEADER)


def new_producers(world: World, topic: str, partitions: int, count: int) -> list[KeyedProducer]:
    return [
        KeyedProducer(world, f"k{number}", topic, partitions, pause_s=(0.0, 0.2))
        for number in range(1, count + 1)
    ]
