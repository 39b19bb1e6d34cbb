"""The loops of compaction: both kernels return the same, also for invalid bytes."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.records import _pure_cleaning as pure
from ottla.records import faults
from ottla.records.batch import HEADER_BYTES, iter_headers, read_header, seal
from ottla.records.build import build_batch
from ottla.records.record import iter_records

SECRET = bytes(range(16))
EVER = 1 << 60
KEYS = st.one_of(st.none(), st.sampled_from([b"", b"a", b"b", b"c" * 40]))
RECORDS = st.lists(
    st.tuples(st.integers(-5, 5), KEYS, st.one_of(st.none(), st.binary(max_size=12)), st.just(())),
    min_size=1,
    max_size=5,
)
BATCHES = st.lists(RECORDS, min_size=1, max_size=6)


@pytest.fixture(params=["compiled", "pure"])
def loops(request: pytest.FixtureRequest) -> Any:
    if request.param == "pure":
        return pure
    return pytest.importorskip("ottla.records._kernel", exc_type=ImportError)


def compiled_loops() -> ModuleType:
    return pytest.importorskip("ottla.records._kernel", exc_type=ImportError)


def joined(batches: list[list[tuple[Any, ...]]], base: int = 100, **options: int) -> bytes:
    data = b""
    for records in batches:
        data += build_batch(records, base_offset=base, **options)
        base += len(records)
    return data


def test_the_hash_is_siphash_2_4_with_128_bits() -> None:
    """The first test vectors of the reference."""
    keys = compiled_loops().KeyMap(2, SECRET)
    for text, wanted in (
        (b"", "a3817f04ba25a8e66df67214c7550293"),
        (b"\0", "da87c1d86b99af44347659119b22fc45"),
    ):
        low, high = keys.hashed(text)
        assert (low.to_bytes(8, "little") + high.to_bytes(8, "little")).hex() == wanted


def test_the_checksum_is_that_of_batches() -> None:
    kernel = compiled_loops()
    rng = random.Random(4)
    for size in (*range(70), 1000, 4096, 70_001):
        batch = bytearray(HEADER_BYTES) + rng.randbytes(size)
        header = seal(batch, read_header(build_batch([(1, b"k", b"v", ())])))
        status, *_ = kernel.map_batches(kernel.KeyMap(9, SECRET), bytes(batch), 0, len(batch), 0, 9)
        assert status in (pure.LOOK, pure.ALL_DONE), "the checksum matches; the records are not checked"
        batch[-1] ^= 1
        if header.records_count:
            status, *_ = kernel.map_batches(kernel.KeyMap(9, SECRET), bytes(batch), 0, len(batch), 0, 9)
            assert status == pure.DAMAGED


def test_a_full_map_returns_the_offset(loops: Any) -> None:
    data = joined([[(1, b"k%d" % n, b"v", ()) for n in range(10)]])
    keys = loops.KeyMap(100, SECRET)
    assert loops.map_batches(keys, data, 0, len(data), 0, 4) == (pure.FULL, 0, 104)
    assert (len(keys), keys.get(b"k3"), keys.get(b"k4")) == (4, 103, -1)
    assert loops.map_batches(keys, data, 0, len(data), 0, 10) == (pure.ALL_DONE, len(data), 110)
    small = loops.KeyMap(4, SECRET)
    assert loops.map_batches(small, data, 0, len(data), 0, 100)[2] == 103, "one slot stays free"
    late = loops.KeyMap(100, SECRET)
    loops.map_batches(late, data, 0, len(data), 105, 100)
    assert (len(late), late.get(b"k4"), late.get(b"k5")) == (5, -1, 105)


def test_a_map_of_many_keys_finds_them_all(loops: Any) -> None:
    count = 3000
    data = joined([[(1, b"key%d" % n, b"", ())] for n in range(count)], base=0)
    keys = loops.KeyMap(count + 200, SECRET)
    assert loops.map_batches(keys, data, 0, len(data), 0, count)[0] == pure.ALL_DONE
    assert [keys.get(b"key%d" % n) for n in range(count)] == list(range(count))


def test_batches_that_are_not_plain_are_left_to_the_caller(loops: Any) -> None:
    plain = joined([[(1, b"a", b"1", ())]])
    for options in ({"codec": 1}, {"transactional": True}, {"transactional": True, "control": True}):
        other = bytes(build_batch([(1, b"a", b"2", ())], base_offset=101, **options))  # type: ignore[arg-type]
        data = plain + other
        keys = loops.KeyMap(10, SECRET)
        assert loops.map_batches(keys, data, 0, len(data), 0, 9) == (pure.LOOK, len(plain), 101)
        out = bytearray(len(data))
        found = loops.filter_batches(keys, data, 0, len(data), EVER, 0, EVER, out, 0)
        assert found == (pure.LOOK, len(plain), len(plain), 1, 1, 0)
    tombstone = joined([[(1, b"a", None, ())]])
    found = loops.filter_batches(keys, tombstone, 0, len(tombstone), EVER, 0, EVER, out, 0)
    assert found[:3] == (pure.LOOK, 0, 0)


def test_a_full_output_buffer_is_reported(loops: Any) -> None:
    data = joined([[(1, b"a", b"1", ())], [(1, b"b", b"1", ())]])
    keys = loops.KeyMap(10, SECRET)
    out = bytearray(len(data) - 1)
    found = loops.filter_batches(keys, data, 0, len(data), EVER, 0, EVER, out, 0)
    assert found == (pure.NO_ROOM, len(data) // 2, len(data) // 2, 1, 1, 0)


def test_an_incomplete_batch_ends_the_loop(loops: Any) -> None:
    data = joined([[(1, b"a", b"1", ())], [(1, b"b", b"1", ())]])
    half = len(data) // 2
    keys = loops.KeyMap(10, SECRET)
    for end in range(half, len(data)):
        assert loops.map_batches(keys, data, 0, end, 0, 9) == (pure.ALL_DONE, half, 101)
    with pytest.raises(ValueError, match="whole"):
        loops.index_points(data, 0, len(data) - 1, 10, 0, -1, 0)
    with pytest.raises(ValueError, match="range"):
        loops.map_batches(keys, data, 0, len(data) + 1, 0, 9)


@settings(max_examples=60, deadline=None)
@given(BATCHES, st.integers(0, 2**64 - 1), st.integers(-3, 10), st.integers(100, 130))
def test_kernels_filter_alike(batches: list[Any], shift: int, latest: int, start: int) -> None:
    kernel: Any = compiled_loops()
    data = joined(batches)
    results = []
    for loops in (kernel, pure):
        keys = loops.KeyMap(64, SECRET)
        mapped = loops.map_batches(keys, data, 0, len(data), start, 50)
        out = bytearray(len(data))
        filtered = loops.filter_batches(keys, data, 0, len(data), 100 + latest, 0, EVER, out, 0)
        opened = []
        for position, header in iter_headers(data):
            section = (position + HEADER_BYTES, position + header.size_bytes, header.records_count)
            found = loops.filter_records(
                keys, data, *section, header.base_offset, header.base_timestamp, 100 + latest, True
            )
            delta = shift - (1 << 63)
            opened.append((found, loops.rebase_records(data, *section, delta)))
        points = loops.index_points(data, 0, len(data), 100, 30, -1, 7)
        results.append((mapped, filtered, bytes(out[: filtered[2]]), opened, points))
    assert results[0] == results[1]


@settings(max_examples=100, deadline=None)
@given(BATCHES, st.data())
def test_kernels_report_invalid_bytes_alike(batches: list[Any], data: Any) -> None:
    kernel: Any = compiled_loops()
    broken = bytearray(joined(batches))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(broken) - 1))
        broken[position] = data.draw(st.integers(0, 255))
    results = []
    for loops in (kernel, pure):
        keys = loops.KeyMap(64, SECRET)
        out = bytearray(len(broken))
        results.append(
            (
                loops.map_batches(keys, bytes(broken), 0, len(broken), 0, 50),
                loops.filter_batches(keys, bytes(broken), 0, len(broken), EVER, 0, EVER, out, 0),
                loops.map_records(keys, bytes(broken), HEADER_BYTES, len(broken), 3, 0, 0, 50),
                loops.filter_records(keys, bytes(broken), HEADER_BYTES, len(broken), 3, 0, 0, EVER, False),
                loops.rebase_records(bytes(broken), HEADER_BYTES, len(broken), 3, 9),
            )
        )
    assert results[0] == results[1]


def test_records_are_rebased(loops: Any) -> None:
    rows = [(1000 + n, b"k", None if n % 2 else b"v", (("h", b"1"),)) for n in range(5)]
    batch = build_batch(rows)
    header = read_header(batch)
    size = header.size_bytes
    reason, moved = loops.rebase_records(batch, HEADER_BYTES, size, 5, 1000 - 90_000_000_000)
    assert reason == faults.OK
    again = bytearray(HEADER_BYTES) + moved
    seal(again, header._replace(base_timestamp=90_000_000_000))
    assert list(iter_records(again, 0, read_header(again))) == list(iter_records(batch, 0, header))
