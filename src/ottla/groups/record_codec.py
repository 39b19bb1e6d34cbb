"""Encode and decode the records of a shard, in versions that Kafka reads."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812
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
from ottla.protocol.messages.group_metadata_value import GroupMetadataValue
from ottla.protocol.messages.offset_commit_key import OffsetCommitKey
from ottla.protocol.messages.offset_commit_value import OffsetCommitValue
from ottla.protocol.uuids import ZERO_UUID

GROUP: Final = "group"
# The newest versions without tagged fields: older brokers and tools read them.
_GROUP_METADATA_VERSION = 3
OFFSET_VERSION = 3
_OFFSET_VERSION_WITH_EXPIRY = 1
OFFSET_VERSION_WITH_TOPIC_ID = 4

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_TYPE_AND_LENGTH = Struct(">hh")


def encode_record(key: Message, value: Message | None) -> tuple[bytes, bytes | None]:
    if value is None:
        return encode_coordinator_key(key), None
    return encode_coordinator_key(key), encode_coordinator_value(value, _version_of(value))


def _version_of(value: Message) -> int | None:
    if isinstance(value, OffsetCommitValue):
        if value.expire_timestamp >= 0:
            return _OFFSET_VERSION_WITH_EXPIRY
        return OFFSET_VERSION if value.topic_id == ZERO_UUID else OFFSET_VERSION_WITH_TOPIC_ID
    return _GROUP_METADATA_VERSION if isinstance(value, GroupMetadataValue) else None


def decode_record(key: Buffer, value: Buffer | None) -> tuple[Message, Message | None] | None:
    """Return None for an unknown record type of another version. Raises DecodeError."""
    if len(key) < 2:
        raise DecodeError("coordinator record is truncated")
    (record_type,) = _INT16.unpack_from(key)
    if record_type not in KEYS_AND_VALUES[GROUP][0]:
        return None
    decoded = decode_coordinator_key(GROUP, key)
    return decoded, None if value is None else decode_coordinator_value(GROUP, record_type, value)


def offset_key(key: Buffer) -> tuple[str, str, int] | None:
    """Return group, topic and partition if this is the key of an offset, else None. Raises DecodeError."""
    try:
        record_type, length = _TYPE_AND_LENGTH.unpack_from(key)
        # Type 0 is an older version of the same key.
        if record_type not in (OffsetCommitKey.API_KEY, 0):
            return None
        end = 4 + length
        group_id = str(key[4:end], "utf-8")
        (length,) = _INT16.unpack_from(key, end)
        begin = end + 2
        end = begin + length
        topic = str(key[begin:end], "utf-8")
        (partition,) = _INT32.unpack_from(key, end)
    except (StructError, UnicodeDecodeError) as error:
        raise DecodeError("the key of an offset record is corrupt") from error
    return group_id, topic, partition
