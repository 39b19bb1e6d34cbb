"""Framing of __cluster_metadata records: frame version, record type, version, message."""

from __future__ import annotations

from ottla.protocol.api import message_class
from ottla.protocol.errors import DecodeError, EncodeError
from ottla.protocol.message import Buffer, Message
from ottla.protocol.messages.table import METADATA_RECORDS
from ottla.protocol.primitives import read_uvarint, uvarint

FRAME_VERSION = 1
_FRAME_VERSION_BYTE = uvarint(FRAME_VERSION)
_classes: dict[int, type[Message]] = {}


def encode_metadata_record(message: Message, version: int | None = None) -> bytes:
    """Encode the record value in the newest stable version, unless `version` is given."""
    if METADATA_RECORDS.get(message.API_KEY) != type(message).__name__:
        raise EncodeError(f"{type(message).__name__} is not a metadata record")
    if version is None:
        version = message.MAX_STABLE_VERSION
    return b"".join(
        (_FRAME_VERSION_BYTE, uvarint(message.API_KEY), uvarint(version), message.encode(version)),
    )


def decode_metadata_record(value: Buffer) -> Message:
    """Decode a record value. Raises DecodeError, also for an unknown record type or version."""
    frame_version, pos = read_uvarint(value, 0)
    if frame_version != FRAME_VERSION:
        raise DecodeError(f"metadata record with frame version {frame_version}")
    record_type, pos = read_uvarint(value, pos)
    version, pos = read_uvarint(value, pos)
    cls = _classes.get(record_type)
    if cls is None:
        name = METADATA_RECORDS.get(record_type)
        if name is None:
            raise DecodeError(f"metadata record of unknown type {record_type}")
        cls = _classes[record_type] = message_class(name)
    return cls.decode(version, value, pos)
