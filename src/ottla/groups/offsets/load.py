"""Load offsets from the bytes of the log by a fast path: there may be a million of them."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812

from ottla.groups.offset_table import CommittedOffset
from ottla.groups.offsets.records import OffsetRecords, committed_of
from ottla.groups.record_codec import GROUP, OFFSET_VERSION, OFFSET_VERSION_WITH_TOPIC_ID, offset_key
from ottla.protocol.coordinator_frame import decode_coordinator_value
from ottla.protocol.errors import DecodeError
from ottla.protocol.messages.legacy_offset_commit_value import LegacyOffsetCommitValue
from ottla.protocol.messages.offset_commit_key import OffsetCommitKey
from ottla.protocol.messages.offset_commit_value import OffsetCommitValue
from ottla.protocol.uuids import ZERO_UUID

_INT32 = Struct(">i")
_INT64 = Struct(">q")
# version, offset, leader epoch, length of the metadata
_OFFSET_V3 = Struct(">hqih")
_OFFSET_V4 = Struct(">hqiB")
# One tagged field, number 0, of 16 bytes.
_TOPIC_ID_TAG = b"\x01\x00\x10"
# The limit of cached (group, topic) tables; beyond it, the slower path is used.
_KNOWN_MAX = 200_000


class OffsetLoader:
    """Caches the tables of topics in groups by the key without its partition.

    The cache is valid as long as only this loader changes the offsets: see `forget`.
    """

    __slots__ = ("_known", "_records", "_topic_ids")

    def __init__(self, records: OffsetRecords) -> None:
        self._records = records
        self._known: dict[bytes, dict[int, CommittedOffset]] = {}
        # Values repeat: share one copy of each.
        self._topic_ids: dict[bytes, bytes] = {ZERO_UUID: ZERO_UUID}

    def load(self, key: bytes, value: bytes | None) -> bool:
        """Return False if the record is not an offset. Raises DecodeError."""
        partitions = self._known.get(key[:-4])
        if partitions is not None and value is not None:
            partitions[_INT32.unpack_from(key, len(key) - 4)[0]] = self.read(key[1], value)
            return True
        names = offset_key(key)
        if names is None:
            return False
        group_id, topic, partition = names
        if value is None:
            self._known.pop(key[:-4], None)
            self._records.remove(group_id, topic, partition)
            return True
        self._records.put(group_id, topic, partition, self.read(key[1], value))
        offsets = self._records.of_group(group_id)
        # Every commit may supersede pending offsets of a transaction.
        if not offsets.pending and len(self._known) < _KNOWN_MAX:
            self._known[key[:-4]] = offsets.topics[topic]
        return True

    def forget(self) -> None:
        """Drop the cache: other code has changed the offsets, or is about to."""
        self._known.clear()

    def read(self, record_type: int, value: bytes) -> CommittedOffset:
        """Decode the value of an offset. Raises DecodeError."""
        if record_type == OffsetCommitKey.API_KEY and len(value) > _OFFSET_V4.size:
            version = value[1]
            if version == OFFSET_VERSION_WITH_TOPIC_ID:
                committed = self._read_v4(value)
                if committed is not None:
                    return committed
            elif version == OFFSET_VERSION:
                return _read_v3(value)
        decoded = decode_coordinator_value(GROUP, record_type, value)
        assert isinstance(decoded, OffsetCommitValue | LegacyOffsetCommitValue)
        return committed_of(decoded)

    def _read_v4(self, value: bytes) -> CommittedOffset | None:
        """Return None unless the value has the common form: short metadata, and the topic id as the only
        tagged field."""
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
            raise DecodeError("the value of an offset record is corrupt") from error
        (commit_ms,) = _INT64.unpack_from(value, end)
        topic_id = value[end + 11 :]
        topic_id = self._topic_ids.setdefault(topic_id, topic_id)
        return offset, leader_epoch, metadata, commit_ms, -1, topic_id


def _read_v3(value: bytes) -> CommittedOffset:
    try:
        _, offset, leader_epoch, length = _OFFSET_V3.unpack_from(value)
        end = 16 + length
        (commit_ms,) = _INT64.unpack_from(value, end)
        return offset, leader_epoch, str(value[16:end], "utf-8"), commit_ms, -1, ZERO_UUID
    except (StructError, UnicodeDecodeError) as error:
        raise DecodeError("the value of an offset record is corrupt") from error
