"""The codecs: formats of other clients, invalid data, and limits on the output."""

from __future__ import annotations

import gzip
import subprocess
import sys
import zlib

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode
from ottla.records.batch import RecordsError
from ottla.records.compression import (
    CODEC_BY_NAME,
    CODEC_NAMES,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    Scratch,
    compress,
    decompress,
)

CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
LIMIT = 1 << 20
XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
TEXT = b"".join(b"record %d of many; " % n for n in range(20000))


def refused(codec: int, data: bytes, limit_bytes: int = LIMIT) -> ErrorCode:
    with pytest.raises(RecordsError) as caught:
        decompress(codec, data, limit_bytes)
    return caught.value.code


def test_names():
    assert [CODEC_BY_NAME[name] for name in CODEC_NAMES] == [0, 1, 2, 3, 4]
    assert CODEC_BY_NAME["uncompressed"] == NONE


@given(
    st.sampled_from([NONE, *CODECS]),
    st.one_of(
        st.binary(max_size=2000), st.builds(lambda b, n: b * n, st.binary(max_size=99), st.integers(0, 3000))
    ),
)
def test_round_trip(codec, data):
    packed = compress(codec, data)
    assert decompress(codec, packed, len(data)) == data
    assert decompress(codec, memoryview(bytearray(packed)), len(data) + 1) == data
    if data:
        assert refused(codec, packed, len(data) - 1) == ErrorCode.MESSAGE_TOO_LARGE


@given(st.lists(st.tuples(st.sampled_from(CODECS), st.integers(0, 400_000)), max_size=6))
def test_scratch_data_is_valid_until_it_is_cleared(pieces):
    scratch = Scratch()
    for _ in range(2):
        scratch.clear()
        texts = [(codec, TEXT[: size % len(TEXT)]) for codec, size in pieces]
        found = [decompress(codec, compress(codec, text, 1), LIMIT, scratch) for codec, text in texts]
        assert [bytes(plain) for plain in found] == [text for _, text in texts]


def test_a_cleared_scratch_is_reused():
    scratch = Scratch()
    first = decompress(SNAPPY, compress(SNAPPY, TEXT), LIMIT, scratch)
    scratch.clear()
    second = decompress(SNAPPY, compress(SNAPPY, TEXT[::-1]), LIMIT, scratch)
    assert bytes(first) == bytes(second) == TEXT[::-1]


@pytest.mark.parametrize("codec", CODECS)
def test_levels(codec):
    for level in (1, 9):
        assert decompress(codec, compress(codec, TEXT, level), LIMIT) == TEXT
    assert len(compress(codec, TEXT)) < len(TEXT) // 3


def test_unknown_codec():
    with pytest.raises(ValueError, match="unknown codec"):
        compress(5, b"")
    assert refused(5, b"") == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_snappy_framing_is_that_of_the_java_client():
    packed = compress(SNAPPY, TEXT)
    assert packed.startswith(XERIAL)
    first = int.from_bytes(packed[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + first])) == TEXT[: 32 * 1024]


def test_snappy_by_hand():
    # A raw block: length 10, a literal "ab", a copy of 8 bytes from 2 back.
    raw = bytes([10, 0x04, 0x61, 0x62, (8 - 4) << 2 | 1, 2])
    assert decompress(SNAPPY, raw, 10) == b"ab" * 5
    block = len(raw).to_bytes(4, "big") + raw
    assert decompress(SNAPPY, XERIAL + block + block, 20) == b"ab" * 10
    assert decompress(SNAPPY, XERIAL, 0) == b""
    assert decompress(SNAPPY, XERIAL + block + XERIAL + block, 20) == b"ab" * 10
    assert refused(SNAPPY, XERIAL + block + block, 19) == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage that is not snappy",
        XERIAL[:12],
        XERIAL + b"\0\0",
        XERIAL + b"\0\0\0\x09abc",
        XERIAL + b"\xff\xff\xff\xff",
        XERIAL + b"\0\0\0\0",
        XERIAL + b"\0\0\0\x05\xff\xff\xff\xff\x0f",
        b"\xff\xff\xff\xff\x0f",
        b"\x80\x80\x40\x00a",
    ],
)
def test_invalid_snappy_data(data):
    assert refused(SNAPPY, data) == ErrorCode.INVALID_RECORD


def test_lz4_blocks_do_not_depend_on_each_other():
    packed = compress(LZ4, TEXT)
    assert packed[:4] == bytes.fromhex("04224d18")
    assert packed[4] & 0x20, "the Java client refuses linked blocks"
    assert bytes(cramjam.lz4.decompress(packed)) == TEXT
    incompressible = bytes(cramjam.zstd.compress(TEXT))[:3000]
    assert decompress(LZ4, compress(LZ4, incompressible), 3000) == incompressible


def test_lz4_frames_of_other_clients():
    linked = bytes(cramjam.lz4.compress(TEXT))
    assert not linked[4] & 0x20
    assert decompress(LZ4, linked, len(TEXT)) == TEXT


def test_zstd_without_content_size():
    compressor = cramjam.zstd.Compressor()
    compressor.compress(TEXT)
    packed = bytes(compressor.flush()) + bytes(compressor.finish())
    assert packed[4] >> 6 == 0
    assert not packed[4] & 0x20
    assert decompress(ZSTD, packed, len(TEXT)) == TEXT


def test_concatenated_streams():
    gz = gzip.compress(b"one ") + gzip.compress(b"two")
    assert decompress(GZIP, gz, 7) == b"one two"
    assert refused(GZIP, gz, 6) == ErrorCode.MESSAGE_TOO_LARGE
    zs = bytes(cramjam.zstd.compress(b"one ")) + bytes(cramjam.zstd.compress(b"two"))
    assert decompress(ZSTD, zs, 7) == b"one two"


@pytest.mark.parametrize("codec", CODECS)
def test_truncated_and_corrupt_streams(codec):
    packed = compress(codec, TEXT)
    assert refused(codec, packed[:-3]) == ErrorCode.INVALID_RECORD
    assert refused(codec, packed[: len(packed) // 2]) == ErrorCode.INVALID_RECORD
    assert refused(codec, b"") == ErrorCode.INVALID_RECORD
    assert refused(codec, b"\x00" * 50) == ErrorCode.INVALID_RECORD
    assert refused(codec, packed + b"tail") == ErrorCode.INVALID_RECORD


@given(st.sampled_from(CODECS), st.binary(max_size=300))
def test_random_bytes_raise_only_records_error(codec, data):
    try:
        assert len(decompress(codec, data, 4096)) <= 4096
    except RecordsError as error:
        assert error.code in (ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE)


@given(st.sampled_from(CODECS), st.integers(0, 1 << 30), st.integers(0, 255))
def test_mutated_streams_raise_only_records_error(codec, place, byte):
    packed = bytearray(compress(codec, TEXT[:3000]))
    packed[place % len(packed)] = byte
    try:
        assert len(decompress(codec, packed, 5000)) <= 5000
    except RecordsError as error:
        assert error.code in (ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE)


def bomb(codec: int, inflated_bytes: int) -> bytes:
    """A stream with a high compression ratio, built without its uncompressed data."""
    if codec == GZIP:
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        return b"".join(packer.compress(bytes(1 << 20)) for _ in range(inflated_bytes >> 20)) + packer.flush()
    if codec == SNAPPY:
        block = bytes(cramjam.snappy.compress_raw(bytes(1 << 16)))
        return XERIAL + (len(block).to_bytes(4, "big") + block) * (inflated_bytes >> 16)
    if codec == LZ4:
        block = bytes(cramjam.lz4.compress_block(bytes(1 << 16), store_size=False))
        framed = len(block).to_bytes(4, "little") + block
        return bytes.fromhex("04224d18604082") + framed * (inflated_bytes >> 16) + bytes(4)
    # Window of 128 KB, then blocks that repeat one byte 128 KB times.
    size = 1 << 17
    repeat = (size << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    last = (size << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
    return bytes.fromhex("28b52ffd0038") + repeat * ((inflated_bytes >> 17) - 1) + last


@pytest.mark.parametrize("codec", CODECS)
def test_decompression_is_limited(codec):
    assert decompress(codec, bomb(codec, 2 << 20), 2 << 20) == bytes(2 << 20)
    assert refused(codec, bomb(codec, 2 << 20), (2 << 20) - 1) == ErrorCode.MESSAGE_TOO_LARGE


BOMB_PROGRAM = """
import resource, sys
from ottla.records.batch import RecordsError
from ottla.records.compression import decompress
bomb = open(sys.argv[2], "rb").read()
before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(int(sys.argv[1]), bomb, 4 << 20)
except RecordsError as error:
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    print(error.code.name, grown_kb)
"""


@pytest.mark.parametrize("codec", CODECS)
def test_decompression_bombs_use_bounded_memory(codec, tmp_path):
    path = tmp_path / "bomb"
    path.write_bytes(bomb(codec, 256 << 20 if codec in (LZ4, ZSTD) else 64 << 20))
    done = subprocess.run(
        [sys.executable, "-c", BOMB_PROGRAM, str(codec), str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    code, grown_kb = done.stdout.split()
    assert code == "MESSAGE_TOO_LARGE"
    assert int(grown_kb) < 24 << 10
