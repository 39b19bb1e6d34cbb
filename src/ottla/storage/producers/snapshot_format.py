"""Producer snapshots (`.snapshot`): the producer state before the offset that names the file.

int16 version 1, uint32 CRC-32C of what follows it, int32 count, then 46 bytes per producer: int64 id,
int16 epoch, int32 last sequence, int64 last offset, int32 offset delta of the last batch, int64 timestamp,
int32 coordinator epoch, int64 first offset of the open transaction or -1. Only the last batch is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from ottla.records.batch import SEQUENCE_MAX
from ottla.records.checksum import crc32c
from ottla.storage.producers.state import KeptBatch, ProducerEntry

_HEAD = Struct(">hIi")
_ENTRY = Struct(">qhiqiqiq")
_CRC_END = 6
SNAPSHOT_SUFFIX = ".snapshot"


class CorruptSnapshot(Exception):
    """The snapshot is damaged: use an older one, or the log."""


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    packed = [_pack(entry) for entry in entries]
    body = bytearray(_HEAD.pack(1, 0, len(packed)))
    for part in packed:
        body += part
    checksum = crc32c(memoryview(body)[_CRC_END:])
    body[: _HEAD.size] = _HEAD.pack(1, checksum, len(packed))
    return bytes(body)


def _pack(entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else None
    return _ENTRY.pack(
        entry.producer_id,
        entry.producer_epoch,
        last.last_sequence if last else -1,
        last.last_offset if last else entry.last_data_offset,
        last.last_offset - last.first_offset if last else 0,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.current_txn_first_offset,
    )


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    if len(data) < _HEAD.size:
        raise CorruptSnapshot("too short")
    version, checksum, count = _HEAD.unpack_from(data)
    if version != 1:
        raise CorruptSnapshot(f"unknown version {version}")
    if crc32c(memoryview(data)[_CRC_END:]) != checksum:
        raise CorruptSnapshot("checksum mismatch")
    if len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"{len(data)} bytes cannot contain {count} entries")
    return [_unpack(fields) for fields in _ENTRY.iter_unpack(data[_HEAD.size :])]


def _unpack(fields: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, txn_first = fields
    entry = ProducerEntry(producer_id, epoch)
    entry.last_timestamp = timestamp
    entry.coordinator_epoch = coordinator_epoch
    entry.current_txn_first_offset = txn_first
    entry.last_data_offset = last_offset
    if last_sequence >= 0:
        entry.complete = False
        first_sequence = (last_sequence - delta) & SEQUENCE_MAX
        entry.batches.append(
            KeptBatch(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp)
        )
    return entry
