"""Frames of requests, responses and internal records; uuids; the table of APIs; lazy imports."""

from __future__ import annotations

import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol import primitives
from ottla.protocol.api import (
    API_BY_KEY,
    message_class,
    request_header_version,
    response_header_version,
)
from ottla.protocol.coordinator_frame import (
    KEYS_AND_VALUES,
    decode_coordinator_key,
    decode_coordinator_value,
    encode_coordinator_key,
    encode_coordinator_value,
)
from ottla.protocol.errors import RETRIABLE, DecodeError, EncodeError, ErrorCode
from ottla.protocol.frames import (
    RequestHead,
    encode_request,
    encode_response,
    read_request_header,
    read_response_header,
)
from ottla.protocol.message import Part
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import ApiVersionsResponse
from ottla.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.heartbeat_response import HeartbeatResponse
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.protocol.messages.offset_commit_key import OffsetCommitKey
from ottla.protocol.messages.table import METADATA_RECORDS
from ottla.protocol.messages.topic_record import TopicRecord
from ottla.protocol.metadata_frame import decode_metadata_record, encode_metadata_record
from ottla.protocol.uuids import METADATA_TOPIC_ID, ZERO_UUID, uuid_from_text, uuid_to_text
from tests.support.protocol.samples import Sampler


def fields(head: RequestHead) -> tuple[object, ...]:
    return head.api_key, head.api_version, head.correlation_id, head.client_id, head.body_pos


@pytest.mark.parametrize("client_id", [None, "", "me", "\u4e2d" * 100])
@pytest.mark.parametrize("version", [0, 8, 9, 13])
def test_request_round_trip(client_id: str | None, version: int) -> None:
    frame = encode_request(version, 77, client_id, MetadataRequest())
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    for buffer in (frame, bytearray(frame), memoryview(frame)):
        head = read_request_header(buffer, 4)
        assert fields(head)[:4] == (3, version, 77, client_id)
        assert MetadataRequest.decode(version, buffer, head.body_pos) == MetadataRequest()


def test_request_header_by_hand() -> None:
    data = bytes.fromhex("0012 0003 00000007 0002 6162 01 05 02 ffff 0b")
    assert fields(read_request_header(data)) == (18, 3, 7, "ab", 17)


def test_headers_of_unknown_apis_and_versions() -> None:
    assert fields(read_request_header(struct.pack(">hhih", 999, 5, 1, -1))) == (999, 5, 1, None, 10)
    assert fields(read_request_header(struct.pack(">hhihb", 18, 99, 1, -1, 0))) == (18, 99, 1, None, 11)
    assert read_request_header(struct.pack(">hhih", -1, -1, -1, -1)).api_key == -1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 9,
        struct.pack(">hhih", 3, 1, 1, 5),
        struct.pack(">hhih", 3, 1, 1, -2),
        struct.pack(">hhih1s", 3, 1, 1, 1, b"\xff"),
        struct.pack(">hhih", 3, 9, 1, -1),
        struct.pack(">hhihB", 3, 9, 1, -1, 1),
        struct.pack(">hhihBBB", 3, 9, 1, -1, 1, 0, 9),
    ],
    ids=["empty", "short", "length", "negative", "utf8", "no-tags", "cut-tags", "tag-size"],
)
def test_bad_request_headers(data: bytes) -> None:
    with pytest.raises(DecodeError):
        read_request_header(data)


def test_client_id_too_long() -> None:
    with pytest.raises(EncodeError):
        encode_request(1, 1, "x" * 32768, MetadataRequest())


@pytest.mark.parametrize("version", [0, 3, 4])
def test_response_round_trip(version: int) -> None:
    (frame,) = encode_response(12, version, 5, HeartbeatResponse(error_code=27))
    assert isinstance(frame, bytes)
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    correlation_id, pos = read_response_header(12, version, frame, 4)
    assert correlation_id == 5
    assert HeartbeatResponse.decode(version, frame, pos) == HeartbeatResponse(error_code=27)


def test_api_versions_response_always_has_header_version_0() -> None:
    (frame,) = encode_response(18, 3, 5, ApiVersionsResponse())
    assert frame == struct.pack(
        ">ii", 4 + len(ApiVersionsResponse().encode(3)), 5
    ) + ApiVersionsResponse().encode(3)
    assert response_header_version(18, 4) == 0
    assert request_header_version(18, 4) == 2
    assert (request_header_version(3, 8), response_header_version(3, 8)) == (1, 0)
    assert (request_header_version(3, 9), response_header_version(3, 9)) == (2, 1)


def test_size_of_a_response_includes_parts_that_are_not_copied() -> None:
    class Region:
        def __len__(self) -> int:
            return 5000

    partition = PartitionData(records=Region())
    message = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    parts: list[Part] = encode_response(1, 12, 9, message)
    first = parts[0]
    assert isinstance(first, bytes)
    assert struct.unpack_from(">iib", first) == (sum(map(len, parts)) - 4, 9, 0)


def test_bad_response_header() -> None:
    for data in (b"", b"\0\0\0", b"\0\0\0\1", b"\0\0\0\1\1"):
        with pytest.raises(DecodeError):
            read_response_header(1, 12, data)


def test_api_table() -> None:
    assert len(API_BY_KEY) == 91
    for key, api in API_BY_KEY.items():
        request, response = api.request_class(), api.response_class()
        assert request.API_KEY == response.API_KEY == key == api.key
        assert (api.min_version, api.max_version) == (request.MIN_VERSION, request.MAX_STABLE_VERSION)
        assert (response.MIN_VERSION, response.MAX_VERSION) == (request.MIN_VERSION, request.MAX_VERSION)
        assert request.FLEXIBLE_FROM == response.FLEXIBLE_FROM == api.flexible_from
        assert request is message_class(f"{api.name}Request")
    assert API_BY_KEY[22].max_version == 5 and API_BY_KEY[22].newest_version == 6
    assert repr(API_BY_KEY[1]) == "Api(1, Fetch, 4-18)"


def test_error_codes() -> None:
    assert [code.value for code in ErrorCode] == list(range(-1, 137))
    assert ErrorCode.KAFKA_STORAGE_ERROR == 56 in RETRIABLE
    assert ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH == 63
    assert ErrorCode.INVALID_REQUEST not in RETRIABLE
    assert set(ErrorCode) > RETRIABLE


@pytest.mark.parametrize("name", METADATA_RECORDS.values())
def test_metadata_records(name: str) -> None:
    cls = message_class(name)
    for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1):
        message = Sampler(name).instance(cls, version)
        value = encode_metadata_record(message, version)
        assert value[:3] == bytes((1, cls.API_KEY, version))
        assert decode_metadata_record(value) == message
        assert decode_metadata_record(memoryview(value)) == message


def test_bad_metadata_records() -> None:
    good = encode_metadata_record(TopicRecord(name="t"))
    assert good[:3] == b"\x01\x02\x00"
    for bad in (
        b"",
        b"\x01",
        b"\x02" + good[1:],
        b"\x01\x63\x00",
        b"\x01\x02\x63" + good[3:],
        good[:-1],
        good + b"\0",
    ):
        with pytest.raises(DecodeError):
            decode_metadata_record(bad)
    with pytest.raises(EncodeError, match="not a metadata record"):
        encode_metadata_record(MetadataRequest())


@pytest.mark.parametrize("coordinator", KEYS_AND_VALUES)
def test_coordinator_records(coordinator: str) -> None:
    keys, values = KEYS_AND_VALUES[coordinator]
    assert keys.keys() == values.keys()
    for record_type in keys:
        key_class, value_class = message_class(keys[record_type]), message_class(values[record_type])
        key = Sampler(keys[record_type]).instance(key_class, 0)
        assert decode_coordinator_key(coordinator, encode_coordinator_key(key)) == key
        assert (key_class.MIN_VERSION, key_class.MAX_VERSION) == (0, 0)
        for version in range(value_class.MIN_VERSION, value_class.MAX_VERSION + 1):
            value = Sampler(values[record_type]).instance(value_class, version)
            encoded = encode_coordinator_value(value, version)
            assert encoded[:2] == struct.pack(">h", version)
            assert decode_coordinator_value(coordinator, key.API_KEY, encoded) == value


def test_coordinator_records_by_hand() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    assert encode_coordinator_key(key) == bytes.fromhex("0001 0001 67 0001 74 00000003")
    for bad in (b"", b"\0", b"\0\x63", encode_coordinator_key(key) + b"\0", encode_coordinator_key(key)[:-1]):
        with pytest.raises(DecodeError):
            decode_coordinator_key("group", bad)
    for bad in (b"", b"\0\x63", b"\xff\xff"):
        with pytest.raises(DecodeError):
            decode_coordinator_value("group", 1, bad)
    with pytest.raises(DecodeError):
        decode_coordinator_value("group", 99, b"\0\0")


@given(st.integers(0, 2**32 - 1))
def test_uvarint(value: int) -> None:
    data = primitives.uvarint(value)
    assert primitives.read_uvarint(b"\xff" + data + b"\xff", 1) == (value, 1 + len(data))
    for cut in range(len(data)):
        with pytest.raises(DecodeError):
            primitives.read_uvarint(data[:cut], 0)


@given(st.binary(min_size=16, max_size=16))
def test_uuid_text(uuid: bytes) -> None:
    text = uuid_to_text(uuid)
    assert len(text) == 22
    assert uuid_from_text(text) == uuid


def test_uuids_by_hand() -> None:
    assert uuid_to_text(METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_from_text("A" * 22) == ZERO_UUID
    assert uuid_to_text(b"\xff" * 16) == "_" * 21 + "w"
    for bad in (
        "",
        "A" * 21,
        "A" * 23,
        "A" * 21 + "=",
        "A" * 21 + "B",
        "A" * 21 + "\u00e9",
        "+" * 22,
        "A" * 20 + "\n\n",
    ):
        with pytest.raises(ValueError, match="not a uuid"):
            uuid_from_text(bad)


def test_importing_the_table_imports_no_message() -> None:
    code = (
        "import sys, ottla.protocol.api, ottla.protocol.frames, ottla.protocol.metadata_frame;"
        "found = [name for name in sys.modules if name.startswith('ottla.protocol.messages.')];"
        "assert found == ['ottla.protocol.messages.table'], found;"
        "assert not {'dataclasses', 'inspect', 'json', 'asyncio'} & set(sys.modules), 'heavy imports'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_compiled_functions_are_cached() -> None:
    ApiVersionsRequest().encode(3)
    assert ApiVersionsRequest.WRITERS[3] is ApiVersionsRequest.WRITERS[3]
    assert 3 not in MetadataRequest.__mro__[1].WRITERS  # type: ignore[attr-defined]
