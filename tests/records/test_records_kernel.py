"""The kernels on valid, invalid and random records: each function alone, and both compared."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.records import _pure, faults, kernel
from ottla.records.faults import INT64_MAX, INT64_MIN

try:
    from ottla.records import _kernel as compiled
except ImportError:
    compiled = None

needs_compiled = pytest.mark.skipif(compiled is None, reason="the compiled kernel is not built")
NOTHING = (None, None, None, 0, 0)


def record(body: bytes) -> bytes:
    assert len(body) < 64
    return bytes([len(body) * 2]) + body


# attributes, timestamp delta 0, offset delta 0, key "k", value null, no headers
GOOD = record(bytes([0, 0, 0, 2, 0x6B, 1, 0]))


@needs_compiled
def test_kernels_are_complete():
    for name in ("decode", "encode", "measure", "pack", "split", "walk"):
        assert callable(getattr(compiled, name))
        assert callable(getattr(_pure, name))
        assert getattr(kernel, name) in (getattr(compiled, name), getattr(_pure, name))


@needs_compiled
@pytest.mark.parametrize("pure", [True, False])
def test_environment_selects_the_pure_kernel(pure):
    environment = {**os.environ, "OTTLA_PURE": "1" if pure else "0"}
    code = "from ottla.records import kernel; print(kernel.COMPILED, kernel.walk.__module__)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == (
        ["False", "ottla.records._pure"] if pure else ["True", "ottla.records._kernel"]
    )


def test_walk_of_a_valid_record(each_kernel):
    found = each_kernel.walk(GOOD, 0, len(GOOD), 1, 5000)
    assert found == (faults.OK, -1, 5000, 5000, 0, 0, 0, None)
    padded = b"xx" + GOOD + b"yy"
    assert each_kernel.walk(memoryview(padded), 2, len(padded) - 2, 1, 5000) == found


def test_walk_finds_minimum_maximum_and_null_keys(each_kernel):
    rows = [(100, b"k", b"v", ()), (300, None, b"v", ()), (50, None, None, ()), (300, b"", b"", ())]
    buf, base, top = each_kernel.pack(rows, 0)
    assert (base, top) == (100, 300)
    assert each_kernel.walk(buf, 0, len(buf), 4, base) == (0, -1, 50, 300, 1, 2, 0, None)
    reason, _, _, _, _, null_keys, bad, errors = each_kernel.walk(buf, 0, len(buf), 4, base, 60, 200, True)
    assert (reason, null_keys, bad) == (0, 2, 3)
    assert errors == [
        (1, faults.NULL_KEY, 300),
        (2, faults.NULL_KEY, 50),
        (3, faults.TIMESTAMP_OUT_OF_RANGE, 300),
    ]


def test_walk_accepts_records_without_timestamp(each_kernel):
    buf, base, _ = each_kernel.pack([(-1, None, b"v", ()), (-2, None, b"v", ())], 0)
    found = each_kernel.walk(buf, 0, len(buf), 2, base, 0, INT64_MAX)
    assert found[6:] == (1, [(1, faults.TIMESTAMP_OUT_OF_RANGE, -2)])


def test_walk_reports_a_bounded_number_of_errors(each_kernel):
    buf, base, _ = each_kernel.pack([(1, None, b"v", ())] * 500, 0)
    found = each_kernel.walk(buf, 0, len(buf), 500, base, INT64_MIN, INT64_MAX, True)
    assert found[5] == 500
    assert [index for index, _, _ in found[7]] == list(range(faults.RECORD_ERRORS_MAX))


BROKEN = [
    ("missing", b"", 1, faults.MISSING_RECORDS, 0),
    ("missing second", GOOD, 2, faults.MISSING_RECORDS, 1),
    ("trailing", GOOD + b"\0", 1, faults.TRAILING_BYTES, 1),
    ("trailing without records", GOOD, 0, faults.TRAILING_BYTES, 0),
    ("negative count", GOOD, -5, faults.TRAILING_BYTES, 0),
    ("cut length", b"\x80", 1, faults.BAD_VARINT, 0),
    ("endless length", b"\x80" * 20, 1, faults.BAD_VARINT, 0),
    ("length of 33 bits", b"\xff\xff\xff\xff\x1f" + bytes(50), 1, faults.BAD_VARINT, 0),
    ("negative length", b"\x01" + bytes(20), 1, faults.BAD_LENGTH, 0),
    ("length 0", b"\0", 1, faults.BAD_LENGTH, 0),
    ("length past the end", b"\x0e\0\0\0\x02k\x01", 1, faults.BAD_LENGTH, 0),
    ("huge length", b"\xfe\xff\xff\xff\x0f\0", 1, faults.BAD_LENGTH, 0),
    ("only attributes", record(b"\0"), 1, faults.BAD_VARINT, 0),
    ("timestamp of 65 bits", record(b"\0" + b"\xff" * 9 + b"\x02\0\1\1\0"), 1, faults.BAD_VARINT, 0),
    ("offset delta", record(bytes([0, 0, 2, 1, 1, 0])), 1, faults.BAD_OFFSET_DELTA, 0),
    ("same offset delta twice", GOOD + GOOD, 2, faults.BAD_OFFSET_DELTA, 1),
    ("key past the record", record(bytes([0, 0, 0, 20, 1, 0])) + bytes(30), 1, faults.BAD_KEY_LENGTH, 0),
    ("key length -2", record(bytes([0, 0, 0, 3, 1, 0])), 1, faults.BAD_KEY_LENGTH, 0),
    ("value past the record", record(bytes([0, 0, 0, 1, 20, 0])) + bytes(30), 1, faults.BAD_VALUE_LENGTH, 0),
    ("value length -2", record(bytes([0, 0, 0, 1, 3, 0])), 1, faults.BAD_VALUE_LENGTH, 0),
    ("negative header count", record(bytes([0, 0, 0, 1, 1, 1])), 1, faults.BAD_HEADER_COUNT, 0),
    ("too many headers", record(bytes([0, 0, 0, 1, 1, 200, 1, 0, 0])), 1, faults.BAD_HEADER_COUNT, 0),
    ("one header too many", record(bytes([0, 0, 0, 1, 1, 4, 0])), 1, faults.BAD_HEADER_COUNT, 0),
    ("null header key", record(bytes([0, 0, 0, 1, 1, 2, 1, 1])), 1, faults.BAD_HEADER_KEY, 0),
    ("header key past the record", record(bytes([0, 0, 0, 1, 1, 2, 8, 65])), 1, faults.BAD_HEADER_KEY, 0),
    ("header value length -2", record(bytes([0, 0, 0, 1, 1, 2, 2, 65, 3])), 1, faults.BAD_HEADER_VALUE, 0),
    ("header value past it", record(bytes([0, 0, 0, 1, 1, 2, 2, 65, 8])), 1, faults.BAD_HEADER_VALUE, 0),
    ("header without value", record(bytes([0, 0, 0, 1, 1, 2, 2, 65])), 1, faults.BAD_VARINT, 0),
    ("no header count", record(bytes([0, 0, 0, 1, 1])), 1, faults.BAD_VARINT, 0),
    ("record too long", record(bytes([0, 0, 0, 1, 1, 0, 9])), 1, faults.LENGTH_MISMATCH, 0),
]


@pytest.mark.parametrize(
    ("buf", "count", "reason", "index"), [case[1:] for case in BROKEN], ids=[c[0] for c in BROKEN]
)
def test_invalid_records(each_kernel, buf, count, reason, index):
    assert each_kernel.walk(buf, 0, len(buf), count, 0)[:2] == (reason, index)
    if reason != faults.BAD_OFFSET_DELTA:  # a compacted batch has gaps, so only produced ones are checked
        assert each_kernel.split(buf, 0, len(buf), count, 0, 0, None)[:2] == (reason, index)
        assert each_kernel.measure(buf, 0, len(buf), count)[:2] == (reason, index)


def test_every_reason_has_a_case_and_a_text():
    assert {case[3] for case in BROKEN} | {faults.OK} == set(range(len(faults.TEXTS)))


def test_padded_numbers_are_read(each_kernel):
    """Some encoders reserve space for a length and pad it with continuation bytes."""
    body = bytes([0, 0x80, 0x80, 0, 0x80, 0, 1, 0x82, 0x80, 0x80, 0x80, 0, 0x76, 0])
    buf = bytes([0x80 | len(body) * 2, 0x80, 0x80, 0x80, 0]) + body
    assert each_kernel.split(buf, 0, len(buf), 1, 10, 20, None) == (0, -1, [(10, 20, None, b"v", ())])


def test_largest_numbers(each_kernel):
    for low, high in ((INT64_MIN, INT64_MAX), (INT64_MAX, INT64_MIN), (0, INT64_MIN), (0, INT64_MAX)):
        buf, base, top = each_kernel.pack([(low, None, None, ()), (high, None, None, ())], 0)
        assert (base, top) == (low, max(low, high))
        found = each_kernel.walk(buf, 0, len(buf), 2, base)
        assert found[:4] == (0, -1, min(low, high), max(low, high))


def test_ranges_outside_the_buffer(each_kernel):
    for pos, end in ((-1, 3), (0, len(GOOD) + 1), (4, 3), (1 << 40, 1 << 41)):
        with pytest.raises(ValueError, match="range"):
            each_kernel.walk(GOOD, pos, end, 1, 0)
        with pytest.raises(ValueError, match="range"):
            each_kernel.split(GOOD, pos, end, 1, 0, 0, None)
        with pytest.raises(ValueError, match="range"):
            each_kernel.measure(GOOD, pos, end, 1)


def test_header_keys_that_are_not_utf_8(each_kernel):
    buf = record(bytes([0, 0, 0, 1, 1, 2, 4, 0x41, 0xFF, 1]))
    assert each_kernel.split(buf, 0, len(buf), 1, 0, 0, None)[2] == [(0, 0, None, None, (("A�", None),))]


def test_pack_accepts_any_buffer(each_kernel):
    expected = each_kernel.pack([(1, b"key", b"value", (("h", b"x"),))], 5)
    taken = each_kernel.pack([(1, bytearray(b"key"), memoryview(b"value"), [("h", bytearray(b"x"))])], 5)
    assert taken == expected
    assert expected[0][:5] == bytes(5)


# -- both kernels against each other ---------------------------------------------------------------

fields = st.one_of(st.none(), st.binary(max_size=40), st.binary(min_size=120, max_size=140))
rows_strategy = st.lists(
    st.tuples(
        st.one_of(st.integers(-5, 5000), st.integers(INT64_MIN, INT64_MAX)),
        fields,
        fields,
        st.lists(st.tuples(st.text(max_size=5), fields), max_size=3).map(tuple),
    ),
    max_size=12,
)


def same_everywhere(
    buf: bytes, pos: int, end: int, count: int, base: int, low: int, high: int, keys: bool
) -> None:
    assert compiled.walk(buf, pos, end, count, base, low, high, keys) == _pure.walk(
        buf, pos, end, count, base, low, high, keys
    )
    assert compiled.split(buf, pos, end, count, base, base, None) == _pure.split(
        buf, pos, end, count, base, base, None
    )
    assert compiled.split(buf, pos, end, count, 7, base, low) == _pure.split(
        buf, pos, end, count, 7, base, low
    )
    measured = compiled.measure(buf, pos, end, count)
    assert measured == _pure.measure(buf, pos, end, count)
    if measured[0] == faults.OK and count >= 0:
        assert decoded(compiled, buf, pos, end, count, base, measured) == decoded(
            _pure, buf, pos, end, count, base, measured
        )


def decoded(module, buf, pos, end, count, base, measured):
    _, _, keys, values, headers, header_keys, header_values = measured
    bitmap, places = (count + 7) // 8, (count + 1) * 4
    sizes = [count * 8, count * 8, count * 4, bitmap, places, keys, bitmap, places, values, places]
    sizes += [(headers + 1) * 4, header_keys, (headers + 7) // 8, (headers + 1) * 4, header_values]
    outputs = [bytearray(b"\xaa" * size) for size in sizes]
    result = module.decode([(buf, pos, end, count, base, base, 0, 0)], count, headers, outputs)
    return result, outputs


@needs_compiled
@given(
    rows_strategy, st.integers(0, 9), st.integers(INT64_MIN, INT64_MAX), st.integers(0, 5000), st.booleans()
)
def test_kernels_agree_on_valid_records(rows, prefix, base, high, keys):
    packed = compiled.pack(rows, prefix)
    assert packed == _pure.pack(rows, prefix)
    buf = packed[0]
    same_everywhere(buf, prefix, len(buf), len(rows), packed[1], 0, high, keys)
    same_everywhere(buf, prefix, len(buf), len(rows), base, 0, high, keys)


@needs_compiled
@given(
    rows_strategy,
    st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(-2, 2),
    st.integers(0, 10),
)
def test_kernels_agree_on_mutated_records(rows, changes, count_change, cut):
    buf = compiled.pack(rows, 0)[0]
    for place, byte in changes:
        if buf:
            buf[place % len(buf)] = byte
    same_everywhere(buf, 0, max(len(buf) - cut, 0), len(rows) + count_change, 0, 0, 5000, True)


@needs_compiled
@given(st.binary(max_size=200), st.integers(-1, 20))
@example(b"\xff" * 30, 3)
def test_kernels_agree_on_random_bytes(buf, count):
    same_everywhere(buf, 0, len(buf), count, 1000, 0, 5000, False)


small_numbers = st.lists(st.integers(0, 24), max_size=120).map(bytes)


@needs_compiled
@given(small_numbers, st.integers(0, 8))
def test_kernels_agree_on_bytes_that_look_like_records(buf, count):
    """Small numbers give valid lengths more often, so the walk gets further than on random bytes."""
    same_everywhere(buf, 0, len(buf), count, 0, 0, 5, True)


# -- columns ---------------------------------------------------------------------------------------


def test_decode_refuses_buffers_that_are_too_small(each_kernel):
    buf = each_kernel.pack([(1, b"key", b"value", (("h", b"x"),))] * 9, 0)[0]
    measured = each_kernel.measure(buf, 0, len(buf), 9)
    assert measured == (0, -1, 27, 45, 9, 9, 9)
    sizes = [72, 72, 36, 2, 40, 27, 2, 40, 45, 40, 40, 9, 2, 40, 9]
    section = (buf, 0, len(buf), 9, 0, 1, 0, 0)
    assert each_kernel.decode([section], 9, 9, [bytearray(n) for n in sizes])[0] == 9
    for short in range(len(sizes)):
        outputs = [bytearray(n - (place == short)) for place, n in enumerate(sizes)]
        with pytest.raises(ValueError, match=r"small|measured"):
            each_kernel.decode([section], 9, 9, outputs)
    with pytest.raises(ValueError, match="measured"):
        each_kernel.decode([section, section], 9, 9, [bytearray(n) for n in sizes])
    with pytest.raises(ValueError, match="measured"):
        each_kernel.decode([section], 9, 8, [bytearray(n) for n in sizes])
    with pytest.raises(ValueError, match="changed"):
        each_kernel.decode([(buf[:-1], 0, len(buf) - 1, 9, 0, 1, 0, 0)], 9, 9, [bytearray(n) for n in sizes])
    with pytest.raises(ValueError, match="shape"):
        each_kernel.decode([section], 9, 9, [])


def test_decode_does_not_write_to_read_only_memory(each_kernel):
    sizes = [8, 8, 4, 1, 8, 1, 1, 8, 0, 8, 4, 0, 0, 4, 0]
    outputs = [bytearray(n) for n in sizes]
    section = (GOOD, 0, len(GOOD), 1, 0, 0, 0, 0)
    assert each_kernel.decode([section], 1, 0, outputs) == (1, 0, 1, 0, 0, True)
    with pytest.raises((ValueError, BufferError)):
        each_kernel.decode([section], 1, 0, [bytes(8), *outputs[1:]])


def ints(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(4, sys.byteorder, signed=True) for number in numbers)


def longs(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, sys.byteorder, signed=True) for number in numbers)


def test_encode_and_pack_agree(each_kernel):
    keys = (b"\x05", ints(0, 1, 1, 3), b"abc", 0, 3)
    values = (None, ints(0, 0, 2, 4), b"wxyz", 0, 3)
    lists = (None, ints(0, 1, 1, 2), None, 0, 3)
    header_keys = (None, ints(0, 1, 2), b"hi", 0, 2)
    header_values = (b"\x02", ints(0, 0, 1), b"!", 0, 2)
    rows = [(9, b"a", b"", (("h", None),)), (7, None, b"wx", ()), (8, b"bc", b"yz", (("i", b"!"),))]
    columns = (keys, values, lists, header_keys, header_values)
    out = each_kernel.encode(0, 3, longs(9, 7, 8), 0, *columns, 4, 1 << 20)
    assert out == (each_kernel.pack(rows, 4)[0], 3, 9, 9)
    out = each_kernel.encode(1, 3, longs(9, 7, 8), 0, *columns, 0, 1 << 20)
    assert out == (each_kernel.pack(rows[1:], 0)[0], 3, 7, 8)
    one = each_kernel.pack(rows[:1], 0)[0]
    for limit in (0, len(one), len(one) + 1):
        assert each_kernel.encode(0, 3, longs(9, 7, 8), 0, *columns, 0, limit) == (one, 1, 9, 9)


@pytest.mark.parametrize(
    "changed",
    [
        {"keys": (None, ints(0, 1, 1), b"abc", 0, 3)},
        {"keys": (None, ints(0, 1, 1, 3), b"ab", 0, 3)},
        {"keys": (None, ints(0, 2, 1, 3), b"abc", 0, 3)},
        {"keys": (None, ints(-1, 1, 1, 3), b"abc", 0, 3)},
        {"keys": (b"", ints(0, 1, 1, 3), b"abc", 0, 3)},
        {"keys": (None, ints(0, 1, 1, 3), b"abc", 1, 3)},
        {"keys": (None, ints(0, 1, 1, 3), b"abc", -1, 3)},
        {"keys": (None, ints(0, 1, 1, 3), b"abc", 0, 2)},
        {"keys": NOTHING},
        {"times": longs(1, 2)},
        {"start": 3},
        {"start": -1},
        {"lists": (None, ints(0, 0, 0, 2), None, 0, 3)},
        {"lists": (None, ints(0, 0, 0, 1), None, 0, 3), "header_keys": (b"\0", ints(0, 1), b"k", 0, 1)},
    ],
)
def test_encode_checks_the_columns(each_kernel, changed):
    given_columns = {
        "keys": (None, ints(0, 1, 1, 3), b"abc", 0, 3),
        "values": (None, ints(0, 1, 1, 3), b"abc", 0, 3),
        "lists": (None, ints(0, 0, 0, 1), None, 0, 3),
        "header_keys": (None, ints(0, 1), b"k", 0, 1),
        "header_values": (None, ints(0, 1), b"v", 0, 1),
        "times": longs(1, 2, 3),
        "start": 0,
    }
    names = ("keys", "values", "lists", "header_keys", "header_values")

    def encode(values):
        return each_kernel.encode(
            values["start"], 3, values["times"], 0, *[values[n] for n in names], 0, 1000
        )

    assert encode(given_columns)[1] == 3
    with pytest.raises(ValueError, match=r"column|small|rows|key is null"):
        encode(given_columns | changed)
