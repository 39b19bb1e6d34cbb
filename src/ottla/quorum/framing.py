"""Encode metadata records into batches, and decode them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ottla.protocol.errors import DecodeError
from ottla.protocol.message import Message
from ottla.protocol.metadata_frame import decode_metadata_record, encode_metadata_record
from ottla.quorum.errors import QuorumError
from ottla.records.batch import BatchHeader
from ottla.records.build import build_batch
from ottla.records.record import iter_records

# A batch is atomic, so a decision should fit into one; Kafka's readers accept up to 8 MiB.
BATCH_BYTES_MAX = 8 * 1024 * 1024 - 1024
_RECORD_OVERHEAD_BYTES = 32  # lengths and deltas around the value


def frame_batches(messages: Iterable[Message], now_ms: int, *, leader_epoch: int) -> Iterator[bytearray]:
    """Yield as few batches as hold the messages; their offsets are set on append."""
    pending: list[tuple[int, None, bytes, tuple[()]]] = []
    nbytes = 0
    for message in messages:
        value = encode_metadata_record(message)
        size = len(value) + _RECORD_OVERHEAD_BYTES
        if pending and nbytes + size > BATCH_BYTES_MAX:
            yield build_batch(pending, leader_epoch=leader_epoch)
            pending = []
            nbytes = 0
        pending.append((now_ms, None, value, ()))
        nbytes += size
    if pending:
        yield build_batch(pending, leader_epoch=leader_epoch)


def batch_messages(buffer: bytes, position: int, header: BatchHeader) -> Iterator[tuple[int, Message]]:
    """Yield (offset, message) of each record of a batch that is not a control batch."""
    for record in iter_records(buffer, position, header):
        if record.value is None:
            raise QuorumError(f"the metadata record at offset {record.offset} is empty")
        try:
            yield record.offset, decode_metadata_record(record.value)
        except DecodeError as error:
            text = f"the metadata record at offset {record.offset} cannot be read: {error}"
            raise QuorumError(text) from error
