"""The bytes of a shard's records: the short way must read what the long way reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.context import ShardContext
from ottla.groups.offsets.load import OffsetLoader
from ottla.groups.offsets.records import OffsetRecords
from ottla.groups.record_codec import decode_record, encode_record, offset_key
from ottla.protocol.coordinator_frame import encode_coordinator_key, encode_coordinator_value
from ottla.protocol.errors import DecodeError
from ottla.protocol.messages.group_metadata_key import GroupMetadataKey
from ottla.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from ottla.protocol.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from ottla.protocol.messages.legacy_offset_commit_value import LegacyOffsetCommitValue
from ottla.protocol.messages.offset_commit_key import OffsetCommitKey
from ottla.protocol.messages.offset_commit_value import OffsetCommitValue
from tests.support.groups.group_harness import Harness

TEXT = st.text(max_size=200)
INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)


def loader() -> OffsetLoader:
    harness = Harness()
    return OffsetLoader(OffsetRecords(ShardContext(harness.config, harness.topics, lambda: "x")))


@given(group=TEXT, topic=TEXT, partition=INT32, legacy=st.booleans())
def test_keys_of_offsets(group: str, topic: str, partition: int, legacy: bool) -> None:
    cls = LegacyOffsetCommitKey if legacy else OffsetCommitKey
    key = encode_coordinator_key(cls(group=group, topic=topic, partition=partition))
    assert offset_key(key) == (group, topic, partition)


@given(
    offset=INT64,
    epoch=INT32,
    metadata=TEXT,
    commit_ms=INT64,
    topic_id=st.binary(min_size=16, max_size=16) | st.just(bytes(16)),
    version=st.integers(0, 4),
)
def test_values_of_offsets(
    offset: int, epoch: int, metadata: str, commit_ms: int, topic_id: bytes, version: int
) -> None:
    value = OffsetCommitValue(
        offset=offset, leader_epoch=epoch, metadata=metadata, commit_timestamp=commit_ms, topic_id=topic_id
    )
    read = loader().read(1, encode_coordinator_value(value, version))
    assert read == (
        offset,
        epoch if version >= 3 else -1,
        metadata,
        commit_ms,
        -1,
        topic_id if version >= 4 else bytes(16),
    )


@given(data=st.binary(max_size=60), cut=st.integers(0, 60))
def test_broken_offsets_are_refused_in_one_way(data: bytes, cut: int) -> None:
    value = OffsetCommitValue(offset=1, metadata="abc", topic_id=b"x" * 16)
    for version in range(5):
        for broken in (data, encode_coordinator_value(value, version)[:cut]):
            try:
                loader().read(1, broken)
                offset_key(b"\0\1" + broken)
            except DecodeError:
                pass


@pytest.mark.parametrize(
    ("value", "version"),
    [
        (OffsetCommitValue(offset=1), 3),
        (OffsetCommitValue(offset=1, topic_id=b"t" * 16), 4),
        (OffsetCommitValue(offset=1, topic_id=b"t" * 16, expire_timestamp=9), 1),
    ],
)
def test_offsets_are_written_in_the_version_that_carries_them(value: OffsetCommitValue, version: int) -> None:
    key, encoded = encode_record(OffsetCommitKey(group="g", topic="t"), value)
    assert encoded is not None
    assert encoded[:2] == bytes([0, version])
    assert decode_record(key, None) == (OffsetCommitKey(group="g", topic="t"), None)


def test_groups_are_written_as_kafka_does() -> None:
    value = GroupMetadataValue(protocol_type="consumer", members=[MemberMetadata(member_id="m")])
    key, encoded = encode_record(GroupMetadataKey(group="g"), value)
    assert (key, encoded and encoded[:2]) == (b"\0\2\0\1g", b"\0\3")
    assert decode_record(key, encoded) == (GroupMetadataKey(group="g"), value)


def test_records_of_unknown_types_are_passed_over() -> None:
    harness = Harness()
    harness.shard.apply_bytes(b"\x7f\xff what", b"ever", 0)
    with pytest.raises(DecodeError):
        harness.shard.apply_bytes(b"\0", b"", 0)


def test_offsets_in_the_oldest_form_are_loaded() -> None:
    harness = Harness()
    key = encode_coordinator_key(LegacyOffsetCommitKey(group="g", topic="t", partition=3))
    value = encode_coordinator_value(LegacyOffsetCommitValue(offset=8, metadata="m", commit_timestamp=5))
    harness.shard.apply_bytes(key, value, 0)
    assert harness.fetch() == {("t", 3): 8}
    harness.shard.apply(LegacyOffsetCommitKey(group="g", topic="t", partition=3), None, 0)
    assert harness.fetch() == {}


@pytest.mark.parametrize("version", range(5))
def test_groups_of_every_version_are_loaded(version: int) -> None:
    harness = Harness()
    member = MemberMetadata(member_id="m", session_timeout=10_000, subscription=b"", assignment=b"x")
    value = GroupMetadataValue(
        protocol_type="consumer", generation=4, protocol="range", leader="m", members=[member]
    )
    key = encode_coordinator_key(GroupMetadataKey(group="g"))
    harness.shard.apply_bytes(key, encode_coordinator_value(value, version), 0)
    harness.take(harness.shard.loaded(harness.now_ms))
    group: Any = harness.shard.group("g")
    assert (group.state, group.generation, group.leader_id) == ("Stable", 4, "m")
    if version == 0:
        assert group.members["m"].rebalance_timeout_ms == 10_000
    # Applied once more, as by a reader that goes over the same batch again, it changes nothing.
    harness.shard.apply_bytes(key, encode_coordinator_value(value, version), 0)
    assert harness.heartbeat("x", member_id="m", generation_id=4) == 0
