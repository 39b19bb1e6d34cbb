"""Records of a shard as bytes: written in versions that Kafka reads, read with a short way for offsets."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final

from ottla.groups.offsets.table import CommittedOffset
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
_OFFSET_VERSION = 3
_OFFSET_VERSION_WITH_EXPIRY = 1
_OFFSET_VERSION_WITH_TOPIC_ID = 4

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_TYPE_AND_LENGTH = Struct(">hh")
# version, offset, leader epoch, length of the metadata
_OFFSET_V3 = Struct(">hqih")
_OFFSET_V4 = Struct(">hqiB")
# One tagged field, number 0, of 16 bytes.
_TOPIC_ID_TAG = b"\x01\x00\x10"


def encode_record(key: Message, value: Message | None) -> tuple[bytes, bytes | None]:
    if value is None:
        return encode_coordinator_key(key), None
    return encode_coordinator_key(key), encode_coordinator_value(value, _version_of(value))


def _version_of(value: Message) -> int | None:
    if isinstance(value, OffsetCommitValue):
        if value.expire_timestamp >= 0:
            return _OFFSET_VERSION_WITH_EXPIRY
        return _OFFSET_VERSION if value.topic_id == ZERO_UUID else _OFFSET_VERSION_WITH_TOPIC_ID
    return _GROUP_METADATA_VERSION if isinstance(value, GroupMetadataValue) else None


def decode_record(key: Buffer, value: Buffer | None) -> tuple[Message, Message | None] | None:
    """None for a record of a type that is not known: another version wrote it. Raises DecodeError."""
    if len(key) < 2:
        raise DecodeError("coordinator record ends too soon")
    (record_type,) = _INT16.unpack_from(key)
    if record_type not in KEYS_AND_VALUES[GROUP][0]:
        return None
    decoded = decode_coordinator_key(GROUP, key)
    return decoded, None if value is None else decode_coordinator_value(GROUP, record_type, value)


def offset_key(key: Buffer) -> tuple[str, str, int] | None:
    """Group, topic and partition, if it is the key of an offset. Raises DecodeError."""
    try:
        record_type, length = _TYPE_AND_LENGTH.unpack_from(key)
        # Type 0 is the same in an older form.
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
        raise DecodeError("key of an offset is broken") from error
    return group_id, topic, partition


class OffsetValues:
    """Reads values of offsets. Topic ids repeat, so one copy of each is kept while it is in use."""

    __slots__ = ("_topic_ids",)

    def __init__(self) -> None:
        self._topic_ids: dict[bytes, bytes] = {ZERO_UUID: ZERO_UUID}

    def read(self, record_type: int, value: bytes) -> CommittedOffset:
        """Raises DecodeError."""
        if record_type == OffsetCommitKey.API_KEY and len(value) > _OFFSET_V4.size:
            version = value[1]
            if version == _OFFSET_VERSION_WITH_TOPIC_ID:
                committed = self._read_v4(value)
                if committed is not None:
                    return committed
            elif version == _OFFSET_VERSION:
                return self._read_v3(value)
        decoded = decode_coordinator_value(GROUP, record_type, value)
        return CommittedOffset(
            decoded.offset,  # type: ignore[attr-defined]
            getattr(decoded, "leader_epoch", -1),
            decoded.metadata,  # type: ignore[attr-defined]
            decoded.commit_timestamp,  # type: ignore[attr-defined]
            getattr(decoded, "expire_timestamp", -1),
            getattr(decoded, "topic_id", ZERO_UUID),
        )

    def _read_v3(self, value: bytes) -> CommittedOffset:
        try:
            _, offset, leader_epoch, length = _OFFSET_V3.unpack_from(value)
            end = 16 + length
            (commit_ms,) = _INT64.unpack_from(value, end)
            return CommittedOffset(
                offset, leader_epoch, str(value[16:end], "utf-8"), commit_ms, -1, ZERO_UUID
            )
        except (StructError, UnicodeDecodeError) as error:
            raise DecodeError("value of an offset is broken") from error

    def _read_v4(self, value: bytes) -> CommittedOffset | None:
        """None for what is not as it nearly always is: short metadata, and the topic id as the only tag."""
        _, offset, leader_epoch, length_and_one = _OFFSET_V4.unpack_from(value)
        end = 14 + length_and_one
        if (
            not 0 < length_and_one < 128
            or len(value) != end + 27
            or value[end + 8 : end + 11] != _TOPIC_ID_TAG
        ):
            return None
        try:
            metadata = str(value[15:end], "utf-8")
        except UnicodeDecodeError as error:
            raise DecodeError("value of an offset is broken") from error
        (commit_ms,) = _INT64.unpack_from(value, end)
        topic_id = value[end + 11 :]
        topic_id = self._topic_ids.setdefault(topic_id, topic_id)
        return CommittedOffset(offset, leader_epoch, metadata, commit_ms, -1, topic_id)
