"""Invalid batches: the correct error code, nothing stored, and lookups that survive stored data."""

from __future__ import annotations

import time
import uuid

import pytest

from fuzzing.batches import bomb, ordinary_batch, with_field, with_payload
from fuzzing.peer import Peer
from fuzzing.target import TargetBroker, fetch, produce, produce_request, produce_result
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.records.compression import GZIP, LZ4, SNAPPY, ZSTD, compress

MB = 1 << 20
TOPIC_BYTES_MAX = 1_048_588
DECOMPRESSED_BYTES_MAX = 64 * MB


def now_ms() -> int:
    return int(time.time() * 1000)


def new_topic(peer: Peer, **configs: str) -> str:
    name = f"bad-{uuid.uuid4().hex[:8]}"
    entries = [
        CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
    ]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=entries)
    answer = peer.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)
    assert answer.topics[0].error_code == 0, answer
    return name


def list_offset(peer: Peer, topic: str, timestamp: int) -> tuple[int, int]:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
    found = peer.call(request, 7).topics[0].partitions[0]
    return found.error_code, found.offset


def end_offset(peer: Peer, topic: str) -> int:
    code, offset = list_offset(peer, topic, -1)
    assert code == 0
    return offset


INVALID, CORRUPT = ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE
WRONG_HEADERS = [
    ("magic", 0, True, INVALID),
    ("magic", 1, True, INVALID),
    ("magic", 3, True, CORRUPT),
    ("magic", -1, True, CORRUPT),
    ("max_timestamp", 0, False, CORRUPT),  # a wrong checksum
    ("batch_length", 0, True, CORRUPT),
    ("batch_length", -1, True, CORRUPT),
    ("batch_length", 2**31 - 1, True, INVALID),
    ("base_offset", 5, True, INVALID),
    ("records_count", 0, True, INVALID),
    ("records_count", -1, True, INVALID),
    ("records_count", 4, True, INVALID),
    ("records_count", 2**31 - 1, True, INVALID),
    ("last_offset_delta", 3, True, INVALID),
    ("last_offset_delta", -1, True, INVALID),
    ("attributes", 5, True, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ("attributes", 7, True, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ("attributes", 0x20, True, INVALID),  # a control batch
    ("attributes", 0x08, True, ErrorCode.INVALID_TIMESTAMP),  # LogAppendTime
    ("attributes", 0x40, True, INVALID),  # a delete horizon
    ("attributes", 0x10, True, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ("producer_id", 7, True, INVALID),  # without a sequence
]


@pytest.mark.parametrize(("field", "value", "crc", "code"), WRONG_HEADERS)
def test_a_wrong_field_of_the_header_is_refused(
    target: TargetBroker, peer: Peer, field: str, value: int, crc: bool, code: ErrorCode
) -> None:
    topic = new_topic(peer)
    batch = with_field(ordinary_batch(now_ms(), 3), field, value, crc=crc)
    assert produce_result(peer, topic, bytes(batch))[0] == code
    assert end_offset(peer, topic) == 0
    assert produce(peer, topic, bytes(ordinary_batch(now_ms()))) == 0  # the connection is still usable


@pytest.mark.parametrize("size", [0, 1, 16, 17, 60, 61, 80])
def test_half_a_batch_is_refused(target: TargetBroker, peer: Peer, size: int) -> None:
    topic = new_topic(peer)
    code = produce_result(peer, topic, bytes(ordinary_batch(now_ms()))[:size])[0]
    assert code == INVALID
    assert end_offset(peer, topic) == 0


def test_two_batches_for_one_partition_are_refused(target: TargetBroker, peer: Peer) -> None:
    topic = new_topic(peer)
    batch = bytes(ordinary_batch(now_ms()))
    assert produce_result(peer, topic, batch + batch)[0] == INVALID


def test_a_batch_above_the_limit_of_the_topic_is_refused(target: TargetBroker, peer: Peer) -> None:
    topic = new_topic(peer)
    batch = with_payload(now_ms(), GZIP, bytes(TOPIC_BYTES_MAX), 1)
    assert produce_result(peer, topic, bytes(batch))[0] == ErrorCode.MESSAGE_TOO_LARGE


def test_timestamps_of_the_far_future_are_refused(target: TargetBroker, peer: Peer) -> None:
    topic = new_topic(peer)
    batch = bytes(ordinary_batch(now_ms() + 7_200_000))
    assert produce_result(peer, topic, batch)[0] == ErrorCode.INVALID_TIMESTAMP
    assert produce_result(peer, topic, bytes(ordinary_batch(2**62)))[0] == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("configs", [{"cleanup_policy": "compact"}, {"compression_type": "uncompressed"}])
def test_a_decompression_bomb_costs_no_more_than_the_limit(
    target: TargetBroker, peer: Peer, codec: int, configs: dict[str, str]
) -> None:
    topic = new_topic(peer, **configs)
    before_bytes = target.rss_bytes()
    size = {GZIP: 256 * MB, LZ4: 200 * MB}.get(
        codec, 1024 * MB
    )  # what fits into one batch and is fast to compress
    batch = with_payload(now_ms(), codec, bomb(codec, size), 1)
    assert len(batch) < TOPIC_BYTES_MAX
    code = produce_result(peer, topic, bytes(batch))[0]
    assert code == (INVALID if codec == SNAPPY else ErrorCode.MESSAGE_TOO_LARGE)
    assert end_offset(peer, topic) == 0
    assert target.rss_bytes() < before_bytes + 32 * MB
    assert target.rss_bytes("VmHWM") < before_bytes + 3 * DECOMPRESSED_BYTES_MAX


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_invalid_compressed_records_are_refused_when_decompressed(
    target: TargetBroker, peer: Peer, codec: int
) -> None:
    topic = new_topic(peer, cleanup_policy="compact")
    batch = with_payload(now_ms(), codec, b"\x82garbage" * 10, 1)
    assert produce_result(peer, topic, bytes(batch))[0] == INVALID


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_lookup_by_time_survives_invalid_stored_records(
    target: TargetBroker, peer: Peer, codec: int
) -> None:
    topic = new_topic(peer)
    assert produce(peer, topic, bytes(ordinary_batch(now_ms() - 1000))) == 0
    stored = with_payload(now_ms(), codec, b"\x82garbage" * 10, 1)
    offset = produce(peer, topic, bytes(stored))
    assert list_offset(peer, topic, now_ms() - 500) == (0, offset)
    assert list_offset(peer, topic, -3) == (0, offset)
    assert fetch(peer, topic, offset)[61:] == bytes(stored)[61:]


def test_a_lookup_by_time_does_not_decode_millions_of_records(target: TargetBroker, peer: Peer) -> None:
    topic = new_topic(peer)
    count = 8_000_000
    record = b"\x0c\0\0\0\1\1\0"  # six bytes after the length: no key, no value
    batch = with_payload(now_ms(), ZSTD, compress(ZSTD, record * count), count)
    assert produce(peer, topic, bytes(batch)) == 0
    before_bytes = target.rss_bytes("VmHWM")
    began_s = time.monotonic()
    assert list_offset(peer, topic, 1) == (0, 0)
    assert time.monotonic() - began_s < 2
    assert target.rss_bytes("VmHWM") < before_bytes + 64 * MB


def test_keyless_records_on_a_compacted_topic_are_named_up_to_a_bound(
    target: TargetBroker, peer: Peer
) -> None:
    topic = new_topic(peer, cleanup_policy="compact")
    count = 8_000_000
    records = b"\x0c\0\0\0\1\1\0" * count
    batch = with_payload(now_ms(), ZSTD, compress(ZSTD, records), count)
    answer = peer.call(produce_request(topic, bytes(batch)), 9)
    found = answer.responses[0].partition_responses[0]
    assert found.error_code == INVALID
    assert 1 <= len(found.record_errors) <= 1000


def test_zstd_before_produce_7_is_refused(target: TargetBroker, peer: Peer) -> None:
    topic = new_topic(peer)
    batch = bytes(ordinary_batch(now_ms(), codec=ZSTD))
    assert produce_result(peer, topic, batch, version=6)[0] == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce_result(peer, topic, batch, version=7)[0] == 0
