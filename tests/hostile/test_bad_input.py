"""Invalid frames and requests: the correct error, or a closed connection with a log line."""

from __future__ import annotations

import struct
import time
import uuid

import pytest

from fuzzing.batches import ordinary_batch, with_field
from fuzzing.peer import Peer
from fuzzing.target import (
    HEALTHY_TOPIC,
    TargetBroker,
    fetch_request,
    produce,
    produce_request,
    produce_result,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.frames import encode_request
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic

FRAME_BYTES_MAX = 104857600
API_VERSIONS = ApiVersionsRequest(client_software_name="x", client_software_version="1")
BAD_NAMES = ["", ".", "..", "a" * 250, "a/b", "a b", "caf\u00e9", "x\ny", "\0"]


def frame(api_key: int, version: int, body: bytes = b"", client_id: bytes = b"x") -> bytes:
    head = struct.pack(">hhih", api_key, version, 1, len(client_id)) + client_id
    return struct.pack(">i", len(head) + len(body)) + head + body


def create_topic(peer: Peer, name: str, partitions: int = 1) -> int:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    answer = peer.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)
    return int(answer.topics[0].error_code)


def new_topic(peer: Peer) -> str:
    name = f"input-{uuid.uuid4().hex[:8]}"
    assert create_topic(peer, name) == 0
    return name


def assert_refused(target: TargetBroker, peer: Peer, logged: str) -> None:
    port = peer.socket.getsockname()[1]
    assert peer.closed_by_broker()
    lines = target.wait_for_log(f":{port}").splitlines()
    assert any(logged in line and f":{port}" in line and "WARN" in line for line in lines), lines


# -- frames


@pytest.mark.parametrize(
    ("data", "logged"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "frame of 1195725856 bytes"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 40, "frame of 369295618 bytes"),
        (struct.pack(">i", -1), "frame of -1 bytes"),
        (struct.pack(">i", -(2**31)), "frame of -2147483648 bytes"),
        (struct.pack(">i", 2**31 - 1), "frame of 2147483647 bytes"),
        (struct.pack(">i", FRAME_BYTES_MAX + 1), "frame of 104857601 bytes"),
        (struct.pack(">i", 0), "request not understood"),
        (struct.pack(">i", 7) + bytes(7), "request not understood"),
        (frame(18, 0, client_id=b"\xff\xfe"), "request not understood"),
        (struct.pack(">ihhih", 10, 18, 0, 1, 500), "client id of 500 bytes"),
        (struct.pack(">ihhih", 10, 18, 0, 1, -2), "client id of -2 bytes"),
        (frame(999, 0), "API key 999"),
        (frame(-1, 0), "API key -1"),
        (frame(4, 0), "API key 4"),  # LeaderAndIsr, which was removed
        (frame(3, 99, b"\0"), "version 99 of API 3"),
        (frame(3, -1), "version -1 of API 3"),
        (frame(1, 3), "version 3 of API 1"),
        (frame(0, 2), "version 2 of API 0"),
        (frame(3, 1, struct.pack(">i", 2**31 - 1)), "request not understood"),
        (frame(3, 1, struct.pack(">i", -2)), "request not understood"),
        (frame(3, 1, struct.pack(">ih", 1, 30000)), "request not understood"),
        (frame(3, 1, struct.pack(">ih", 1, 2) + b"\xc3\x28"), "request not understood"),
        (frame(3, 12, b"\0\xff\xff\xff\xff\x0f"), "request not understood"),
        (frame(3, 12, b"\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), "request not understood"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else value[:12].hex(),
)
def test_invalid_frames_close_the_connection(
    target: TargetBroker, peer: Peer, data: bytes, logged: str
) -> None:
    peer.send(data)
    assert_refused(target, peer, logged)


def test_input_cannot_forge_a_log_line(target: TargetBroker, peer: Peer) -> None:
    peer.send(
        encode_request(9, 1, "x\n2026-01-01 ERROR all is lost\x1b[2J", produce_request("a\nb", b"x", 0))
    )
    assert peer.closed_by_broker()
    for line in target.wait_for_log("acks=0 failed").splitlines():
        assert line[:2] == "20" and "\x1b" not in line


def test_requests_before_a_bad_frame_are_answered(target: TargetBroker, peer: Peer) -> None:
    peer.send(encode_request(0, 7, "x", ApiVersionsRequest()) + struct.pack(">i", -1))
    assert peer.answer(18, 0, 7).error_code == 0
    assert_refused(target, peer, "frame of -1 bytes")


def test_requests_before_an_unknown_api_are_answered(target: TargetBroker, peer: Peer) -> None:
    peer.send(encode_request(0, 7, "x", ApiVersionsRequest()) + frame(999, 0))
    assert peer.answer(18, 0, 7).error_code == 0
    assert_refused(target, peer, "API key 999")


def test_a_request_may_come_byte_by_byte(target: TargetBroker, peer: Peer) -> None:
    for n, byte in enumerate(encode_request(3, 7, "slow", API_VERSIONS)):
        peer.send(bytes([byte]))
        if n % 10 == 0:
            time.sleep(0.005)
    assert peer.answer(18, 3, 7).error_code == 0


# -- versions


@pytest.mark.parametrize("version", [6, 99, 32767, -1])
def test_an_unknown_api_versions_version_gets_the_supported_ones(
    target: TargetBroker, peer: Peer, version: int
) -> None:
    peer.send(frame(18, version, b"\0whatever"))
    answer = peer.answer(18, 0, 1)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    told = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    assert told[18] == (0, 5)
    assert told[1][0] == 4
    assert peer.call(API_VERSIONS, 3).error_code == 0  # the connection is still usable


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(("name", "number"), [("", ""), ("-x", "1"), ("x", "1."), ("a b", "1"), ("x\n", "1")])
def test_a_bad_client_software_name_is_an_invalid_request(
    target: TargetBroker, peer: Peer, version: int, name: str, number: str
) -> None:
    asked = ApiVersionsRequest(client_software_name=name, client_software_version=number)
    assert peer.call(asked, version).error_code == ErrorCode.INVALID_REQUEST
    assert peer.call(API_VERSIONS, version).error_code == 0


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce_below_3_is_refused_though_advertised(target: TargetBroker, peer: Peer, version: int) -> None:
    assert {api.api_key: api.min_version for api in peer.call(API_VERSIONS, 3).api_keys}[0] == 0
    peer.send(frame(0, version, struct.pack(">hii", 1, 1000, 0)))
    assert_refused(target, peer, f"version {version} of API 0")


# -- produce


def test_an_error_with_acks_0_closes_the_connection(target: TargetBroker, peer: Peer) -> None:
    batch = bytes(ordinary_batch(int(time.time() * 1000)))
    peer.send(encode_request(9, 1, "x", produce_request(HEALTHY_TOPIC, batch, 0)))
    assert (
        peer.call(API_VERSIONS, 3).error_code == 0
    )  # a valid one has no response, and the connection stays open
    peer.send(encode_request(9, 1, "x", produce_request("no-such-topic", batch, 0)))
    assert_refused(target, peer, "acks=0 failed: UNKNOWN_TOPIC_OR_PARTITION")


def test_a_bad_batch_with_acks_0_closes_the_connection(target: TargetBroker, peer: Peer) -> None:
    batch = with_field(ordinary_batch(int(time.time() * 1000)), "max_timestamp", 1, crc=False)
    peer.send(encode_request(9, 1, "x", produce_request(HEALTHY_TOPIC, bytes(batch), 0)))
    assert_refused(target, peer, "acks=0 failed: CORRUPT_MESSAGE")


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_invalid_acks_are_rejected(target: TargetBroker, peer: Peer, acks: int) -> None:
    batch = bytes(ordinary_batch(int(time.time() * 1000)))
    assert produce_result(peer, HEALTHY_TOPIC, batch, acks)[0] == ErrorCode.INVALID_REQUIRED_ACKS


# -- names and offsets


@pytest.mark.parametrize("name", BAD_NAMES)
def test_invalid_names(target: TargetBroker, peer: Peer, name: str) -> None:
    assert create_topic(peer, name) == ErrorCode.INVALID_TOPIC_EXCEPTION
    metadata = peer.call(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 9)
    assert metadata.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    batch = bytes(ordinary_batch(int(time.time() * 1000)))
    assert produce_result(peer, name, batch)[0] in (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )


def test_the_metadata_log_is_not_accessible_as_a_topic(target: TargetBroker, peer: Peer) -> None:
    name = "__cluster_metadata"
    assert create_topic(peer, name) == ErrorCode.INVALID_REQUEST
    batch = bytes(ordinary_batch(int(time.time() * 1000)))
    assert produce_result(peer, name, batch)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = peer.call(fetch_request(name, 0), 12)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    metadata = peer.call(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 9)
    assert metadata.topics[0].error_code != 0


@pytest.mark.parametrize("offset", [-1, -(2**63), 4, 2**63 - 1])
def test_a_fetch_outside_of_the_log_is_out_of_range(target: TargetBroker, peer: Peer, offset: int) -> None:
    topic = new_topic(peer)
    assert produce(peer, topic, bytes(ordinary_batch(int(time.time() * 1000), 3))) == 0
    found = peer.call(fetch_request(topic, offset, max_wait_ms=5000), 12).responses[0].partitions[0]
    assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("offset", [-2, -(2**63), 4, 2**63 - 1])
def test_records_outside_of_the_log_cannot_be_deleted(target: TargetBroker, peer: Peer, offset: int) -> None:
    topic = new_topic(peer)
    assert produce(peer, topic, bytes(ordinary_batch(int(time.time() * 1000), 3))) == 0
    asked = DeleteRecordsTopic(
        name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]
    )
    found = peer.call(DeleteRecordsRequest(topics=[asked], timeout_ms=1000), 2).topics[0].partitions[0]
    assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    start = peer.call(fetch_request(topic, 0), 12).responses[0].partitions[0]
    assert start.error_code == 0 and start.log_start_offset == 0


@pytest.mark.parametrize(
    ("timestamp", "code"),
    [(-7, ErrorCode.INVALID_REQUEST), (-(2**63), ErrorCode.INVALID_REQUEST), (2**63 - 1, ErrorCode.NONE)],
)
def test_strange_timestamps_of_list_offsets(
    target: TargetBroker, peer: Peer, timestamp: int, code: ErrorCode
) -> None:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topic = ListOffsetsTopic(name=HEALTHY_TOPIC, partitions=[asked])
    found = peer.call(ListOffsetsRequest(replica_id=-1, topics=[topic]), 7).topics[0].partitions[0]
    assert (found.error_code, found.offset) == (code, -1)
