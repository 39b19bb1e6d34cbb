"""Control batches: records about the log itself, which consumers skip.

The key of a control record is int16 version and int16 type. The values of transaction markers begin with
their version; those of the quorum have it as their first field, which gives the same bytes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from ottla.protocol.messages.end_txn_marker import EndTxnMarker
from ottla.protocol.messages.kraft_version_record import KRaftVersionRecord
from ottla.protocol.messages.leader_change_message import LeaderChangeMessage
from ottla.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from ottla.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from ottla.protocol.messages.voters_record import VotersRecord
from ottla.records.batch import NO_LEADER_EPOCH, CorruptBatch
from ottla.records.build import build_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.message import Message
    from ottla.records.record import Record

ABORT = 0
COMMIT = 1
LEADER_CHANGE = 2
SNAPSHOT_HEADER = 3
SNAPSHOT_FOOTER = 4
KRAFT_VERSION = 5
KRAFT_VOTERS = 6

KEY_VERSION = 0
END_TXN_MARKER_VERSION = 0

_KEY = struct.Struct(">hh")
_VERSION = struct.Struct(">h")
_QUORUM_MESSAGES: dict[int, type[Message]] = {
    LEADER_CHANGE: LeaderChangeMessage,
    SNAPSHOT_HEADER: SnapshotHeaderRecord,
    SNAPSHOT_FOOTER: SnapshotFooterRecord,
    KRAFT_VERSION: KRaftVersionRecord,
    KRAFT_VOTERS: VotersRecord,
}
_TYPE_BY_MESSAGE = {message: control_type for control_type, message in _QUORUM_MESSAGES.items()}

QuorumMessage = (
    LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord
)


class ControlRecord(NamedTuple):
    """A decoded control record; `message` is None for an unknown type."""

    offset: int
    control_type: int
    message: Message | None


def control_key(control_type: int) -> bytes:
    return _KEY.pack(KEY_VERSION, control_type)


def end_txn_marker(
    producer_id: int,
    producer_epoch: int,
    *,
    commit: bool,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """Build the batch that ends a transaction in a partition."""
    version = END_TXN_MARKER_VERSION
    value = _VERSION.pack(version) + EndTxnMarker(coordinator_epoch=coordinator_epoch).encode(version)
    return build_batch(
        [(timestamp_ms, control_key(COMMIT if commit else ABORT), value, ())],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        leader_epoch=leader_epoch,
        transactional=True,
        control=True,
    )


def quorum_batch(
    messages: Sequence[QuorumMessage], timestamp_ms: int, *, base_offset: int = 0, leader_epoch: int
) -> bytearray:
    """Build a control batch with one record per message, in the version that the message contains."""
    records = [
        (timestamp_ms, control_key(_TYPE_BY_MESSAGE[type(message)]), message.encode(message.version), ())
        for message in messages
    ]
    return build_batch(records, base_offset=base_offset, leader_epoch=leader_epoch, control=True)


def leader_change_batch(
    message: LeaderChangeMessage, timestamp_ms: int, *, base_offset: int = 0, leader_epoch: int
) -> bytearray:
    return quorum_batch([message], timestamp_ms, base_offset=base_offset, leader_epoch=leader_epoch)


def snapshot_header_batch(
    last_contained_log_timestamp_ms: int,
    timestamp_ms: int,
    *,
    base_offset: int = 0,
    leader_epoch: int,
    kraft_version: KRaftVersionRecord | None = None,
    voters: VotersRecord | None = None,
) -> bytearray:
    """Build the first batch of a snapshot: the header and, for a dynamic quorum, its version and voters."""
    messages: list[QuorumMessage] = [
        SnapshotHeaderRecord(last_contained_log_timestamp=last_contained_log_timestamp_ms)
    ]
    messages += [message for message in (kraft_version, voters) if message is not None]
    return quorum_batch(messages, timestamp_ms, base_offset=base_offset, leader_epoch=leader_epoch)


def snapshot_footer_batch(timestamp_ms: int, *, base_offset: int = 0, leader_epoch: int) -> bytearray:
    return quorum_batch(
        [SnapshotFooterRecord()], timestamp_ms, base_offset=base_offset, leader_epoch=leader_epoch
    )


def kraft_version_batch(
    kraft_version: int, timestamp_ms: int, *, base_offset: int = 0, leader_epoch: int
) -> bytearray:
    message = KRaftVersionRecord(kraft_version=kraft_version)
    return quorum_batch([message], timestamp_ms, base_offset=base_offset, leader_epoch=leader_epoch)


def voters_batch(
    message: VotersRecord, timestamp_ms: int, *, base_offset: int = 0, leader_epoch: int
) -> bytearray:
    return quorum_batch([message], timestamp_ms, base_offset=base_offset, leader_epoch=leader_epoch)


def parse_control_key(key: bytes | None) -> tuple[int, int]:
    """Return (version, type) of a control record; later versions of the key may be longer."""
    if key is None or len(key) < _KEY.size:
        raise CorruptBatch("invalid key of a control record")
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptBatch(f"unknown version {version} of a control record's key")
    return version, control_type


def parse_control_record(record: Record) -> ControlRecord:
    """Decode a record of a control batch. Raises DecodeError or CorruptBatch."""
    _, control_type = parse_control_key(record.key)
    message: Message | None = None
    if control_type in (ABORT, COMMIT):
        version = _version_of(record.value)
        assert record.value is not None
        # Fields are only added at the end, so a later version can be read as the newest known one.
        message, _ = EndTxnMarker.read(min(version, EndTxnMarker.MAX_VERSION), record.value, _VERSION.size)
    elif control_type in _QUORUM_MESSAGES:
        message_class = _QUORUM_MESSAGES[control_type]
        version = _version_of(record.value)
        assert record.value is not None
        message, _ = message_class.read(min(version, message_class.MAX_VERSION), record.value, 0)
    return ControlRecord(record.offset, control_type, message)


def _version_of(value: bytes | None) -> int:
    if value is None or len(value) < _VERSION.size:
        raise CorruptBatch("invalid value of a control record")
    (version,) = _VERSION.unpack_from(value)
    if version < 0:
        raise CorruptBatch(f"unknown version {version} of a control record's value")
    return int(version)
