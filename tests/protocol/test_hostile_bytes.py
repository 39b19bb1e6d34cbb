"""Arbitrary bytes: the result is a message or a DecodeError, with memory in proportion to their length."""

from __future__ import annotations

import contextlib
import random
import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.api import message_class
from ottla.protocol.errors import DecodeError
from ottla.protocol.frames import read_request_header, read_response_header
from ottla.protocol.message import Message
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import ApiVersionsResponse
from ottla.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.protocol.messages.metadata_response import MetadataResponse
from ottla.protocol.messages.produce_request import ProduceRequest
from tests.support.protocol.samples import MESSAGE_NAMES, Sampler, every_message, slow_uvarint, versions_of

EVERY_MESSAGE = every_message()
HOSTILE_NUMBERS = [struct.pack(">i", n) for n in (-1, -2, 2**31 - 1, -(2**31), 2**24)]
HOSTILE_NUMBERS += [
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\x01",
    b"\x80" * 9,
    b"\x7f\xff",
    b"\xff\xfe",
]


def decode_or_refuse(cls: type[Message], version: int, data: bytes | memoryview) -> Message | None:
    with contextlib.suppress(DecodeError):
        return cls.decode(version, data)
    return None


@pytest.mark.parametrize("name", MESSAGE_NAMES)
def test_mutated_messages(name: str) -> None:
    cls = message_class(name)
    rng = random.Random(name)
    for version in versions_of(cls):
        sampler = Sampler(f"hostile {name} {version}")
        for _ in range(3):
            data = sampler.instance(cls, version).encode(version)[:4000]
            for _ in range(8):
                mutated = bytearray(data)
                for _ in range(rng.randint(1, 3)):
                    at = rng.randint(0, len(mutated))
                    junk = rng.choice((rng.randbytes(rng.randint(0, 5)), rng.choice(HOSTILE_NUMBERS)))
                    mutated[at : at + rng.choice((0, len(junk)))] = junk
                found = decode_or_refuse(cls, version, bytes(mutated))
                decode_or_refuse(cls, version, memoryview(mutated))
                if found is not None:
                    # What was accepted can be encoded, and decodes to the same.
                    again = found.encode(version)
                    assert cls.decode(version, again).encode(version) == again


@pytest.mark.parametrize("name", MESSAGE_NAMES)
def test_every_truncation_is_refused(name: str) -> None:
    cls = message_class(name)
    version = cls.MAX_VERSION
    data = Sampler(name).instance(cls, version).encode(version)
    cuts = range(len(data)) if len(data) < 200 else random.Random(name).sample(range(len(data)), 100)
    for cut in cuts:
        with pytest.raises(DecodeError):
            cls.decode(version, data[:cut])
        with pytest.raises(DecodeError):
            cls.decode(version, memoryview(data)[:cut])
    with pytest.raises(DecodeError, match="1 trailing bytes"):
        cls.decode(version, data + b"\0")


@settings(deadline=None)
@given(st.sampled_from(EVERY_MESSAGE), st.binary(max_size=200))
def test_arbitrary_bytes(which: tuple[type[Message], int], data: bytes) -> None:
    decode_or_refuse(*which, data)


@given(st.binary(max_size=60))
def test_arbitrary_headers(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        head = read_request_header(data)
        assert 10 <= head.body_pos <= len(data)
    with contextlib.suppress(DecodeError):
        assert read_response_header(1, 12, data)[1] <= len(data)


def huge_counts() -> list[tuple[type[Message], int, bytes]]:
    return [
        (MetadataRequest, 1, struct.pack(">i", 2**31 - 1)),
        (MetadataRequest, 9, slow_uvarint(2**32 - 1)),
        (MetadataResponse, 12, b"\0\0\0\0" + slow_uvarint(2**31)),
        (FetchRequest, 4, struct.pack(">iiiibi", -1, 0, 0, 0, 0, 2**31 - 1)),
        (ProduceRequest, 3, struct.pack(">hhii", -1, 1, 0, 2**31 - 1)),
    ]


@pytest.mark.parametrize(("cls", "version", "data"), huge_counts())
def test_huge_counts_allocate_nothing(cls: type[Message], version: int, data: bytes) -> None:
    data += bytes(1000)
    cls.read(version, cls().encode(version))
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match="count"):
            cls.decode(version, data)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 20_000


def test_too_many_elements_in_a_large_frame() -> None:
    assert len(MetadataRequest.decode(0, struct.pack(">i", 1000) + bytes(2000)).topics or []) == 1000
    with pytest.raises(DecodeError, match="too many elements"):
        MetadataRequest.decode(0, struct.pack(">i", 1_000_001) + bytes(2_000_002))
    # In many small arrays, and in a large one.
    forgotten = struct.pack(">hi", 0, 250_000) + bytes(1_000_000)
    head = struct.pack(">iiiibiiii", -1, 0, 0, 0, 0, 0, -1, 0, 4)
    with pytest.raises(DecodeError, match="too many elements"):
        FetchRequest.decode(7, head + 4 * forgotten)


def test_huge_length() -> None:
    with pytest.raises(DecodeError, match="length"):
        ProduceRequest.decode(3, struct.pack(">h", 32767) + b"abc")
    with pytest.raises(DecodeError, match="string of"):
        ApiVersionsRequest.decode(3, slow_uvarint(32769) + bytes(40000))
    assert ApiVersionsRequest.decode(3, slow_uvarint(32768) + bytes(32767) + b"\x01\0")


def test_negative_lengths() -> None:
    with pytest.raises(DecodeError, match="length"):
        ProduceRequest.decode(3, struct.pack(">hhii", -2, 1, 0, 0))
    with pytest.raises(DecodeError, match="count"):
        MetadataRequest.decode(1, struct.pack(">i", -2))
    with pytest.raises(DecodeError, match="count"):
        MetadataRequest.decode(0, struct.pack(">i", -1))
    assert MetadataRequest.decode(1, struct.pack(">i", -1)).topics is None


def test_null_where_null_is_not_allowed() -> None:
    with pytest.raises(DecodeError, match="client_software_name"):
        ApiVersionsRequest.decode(3, b"\0\x01\0")


def test_bad_utf8() -> None:
    with pytest.raises(DecodeError, match="utf-8"):
        ApiVersionsRequest.decode(3, b"\x02\xff\x01\0")
    with pytest.raises(DecodeError, match="utf-8"):
        ProduceRequest.decode(3, struct.pack(">h1shii", 1, b"\xc3", 1, 0, 0))


def test_varint_overflow() -> None:
    for first in (b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x01", b"\xff" * 10):
        with pytest.raises(DecodeError, match="varint"):
            MetadataRequest.decode(9, first + bytes(20))


def test_nullable_struct_marker() -> None:
    message = DescribeTopicPartitionsRequest()
    data = message.encode(0)
    assert data[-2:] == b"\xff\0"
    with pytest.raises(DecodeError, match="cursor"):
        DescribeTopicPartitionsRequest.decode(0, data[:-2] + b"\x80\0")


def tagged(*fields: tuple[int, bytes]) -> bytes:
    body = b"".join(slow_uvarint(tag) + slow_uvarint(len(data)) + data for tag, data in fields)
    return b"\0\0\x01\0\0\0\0" + slow_uvarint(len(fields)) + body


def test_tagged_fields_known_and_unknown() -> None:
    epoch = (1, struct.pack(">q", 77))
    found = ApiVersionsResponse.decode(3, tagged(epoch, (9, b"whatever"), (300, b"")))
    assert found == ApiVersionsResponse(finalized_features_epoch=77)
    for size in (127, 128, 200, 256):
        assert ApiVersionsResponse.decode(3, tagged((9, b"x" * size))) == ApiVersionsResponse()


@pytest.mark.parametrize(
    "data",
    [
        tagged((1, bytes(8)), (1, bytes(8))),
        tagged((9, b""), (1, bytes(8))),
        tagged((9, b""), (9, b"")),
        tagged((1, bytes(7))),
        tagged((1, bytes(9))),
        tagged()[:-1] + b"\x02\x01\x0b" + bytes(8) + b"\x03\x01\x01",
        tagged((3, b"")),
        tagged((9, bytes(8)))[:-1],
        tagged()[:-1] + b"\x01\x09\xff\xff\xff\xff\x0f",
        tagged()[:-1] + b"\xff\xff\xff\xff\x0f",
    ],
    ids=[
        "twice",
        "order",
        "unknown-twice",
        "short",
        "long",
        "swallows-another",
        "empty",
        "cut",
        "size",
        "count",
    ],
)
def test_bad_tagged_fields(data: bytes) -> None:
    with pytest.raises(DecodeError):
        ApiVersionsResponse.decode(3, data)


@pytest.mark.parametrize(
    "tags",
    [b"\x02\x05\0\x05\0", b"\x02\x05\0\x04\0", b"\x01\x05\x09", b"\x01", b"\xff\xff\xff\xff\x0f", b"\x80"],
    ids=["twice", "order", "size", "missing", "count", "cut"],
)
def test_bad_tagged_fields_where_none_is_known(tags: bytes) -> None:
    with pytest.raises(DecodeError):
        ApiVersionsRequest.decode(3, b"\x01\x01" + tags)


def test_unknown_version_is_refused() -> None:
    for version in (-1, 14, 32767, 2**40):
        with pytest.raises(DecodeError, match="no version"):
            MetadataRequest.decode(version, b"\0\0\0\0")
