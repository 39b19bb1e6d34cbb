"""Records of a shard as bytes."""

from __future__ import annotations

from struct import Struct
from typing import Final

from ottla.protocol.coordinator_frame import (
    KEYS_AND_VALUES,
    decode_coordinator_key,
    decode_coordinator_value,
    encode_coordinator_key,
    encode_coordinator_value,
)
from ottla.protocol.errors import DecodeError
from ottla.protocol.message import Buffer, Message

TRANSACTION: Final = "transaction"
_INT16 = Struct(">h")


def encode_record(key: Message, value: Message | None) -> tuple[bytes, bytes | None]:
    return encode_coordinator_key(key), None if value is None else encode_coordinator_value(value)


def decode_record(key: Buffer, value: Buffer | None) -> tuple[Message, Message | None] | None:
    """Return None for an unknown record type of another version. Raises DecodeError."""
    if len(key) < 2:
        raise DecodeError("coordinator record is truncated")
    (record_type,) = _INT16.unpack_from(key)
    if record_type not in KEYS_AND_VALUES[TRANSACTION][0]:
        return None
    decoded = decode_coordinator_key(TRANSACTION, key)
    return decoded, None if value is None else decode_coordinator_value(TRANSACTION, record_type, value)
