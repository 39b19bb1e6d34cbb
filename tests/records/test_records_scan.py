"""Scans of segments: the compiled and the pure functions give the same results, and the right ones."""

from __future__ import annotations

import random
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records import _pure_scan
from ottla.records._pure_scan import BROKEN, GAP, OTHER_EPOCH, SCANNED
from ottla.records.batch import iter_headers, read_header, stamp
from ottla.records.build import build_batch

FAR = 1 << 62


def kernels() -> list[ModuleType]:
    try:
        from ottla.records import _kernel
    except ImportError:
        return [_pure_scan]
    return [_pure_scan, _kernel]


@pytest.fixture(params=kernels(), ids=lambda module: module.__name__.rpartition(".")[2])
def scan(request: pytest.FixtureRequest) -> ModuleType:
    chosen: ModuleType = request.param
    return chosen


def placed(offset: int, epoch: int = 3, count: int = 1, **fields: object) -> bytearray:
    data = build_batch([(1000 + i, None, b"v" * 20, ()) for i in range(count)], **fields)  # type: ignore[arg-type]
    stamp(data, 0, offset, epoch)
    return data


def test_a_whole_buffer(scan: ModuleType) -> None:
    data = b"".join([placed(0, count=2), placed(2), placed(3)])
    assert scan.check_batches(data, 0, len(data), 0, 0, FAR, 3) == (SCANNED, len(data), 4, 3)
    assert scan.check_batches(data, 0, 0, 7, 0, FAR, 3) == (SCANNED, 0, 7, 0)


def test_every_cut_stops_before_the_incomplete_batch(scan: ModuleType) -> None:
    one = placed(0)
    data = one + placed(1)
    for end in range(len(data)):
        whole = end // len(one)
        assert scan.check_batches(data, 0, end, 0, 0, FAR, 3) == (SCANNED, whole * len(one), whole, whole)
        assert scan.producer_batches(data, 0, end, 0) == (SCANNED, [], whole * len(one), whole)


def test_every_flipped_bit_is_noticed(scan: ModuleType) -> None:
    one = placed(0)
    good = one + placed(1) + placed(2)
    for position in range(len(one), 2 * len(one)):
        data = bytearray(good)
        data[position] ^= 1 << position % 8
        status, pos, next_offset, count = scan.check_batches(data, 0, len(data), 0, 0, FAR, 3)
        # A damaged length may announce a batch beyond the end of the buffer: the caller sees the end.
        assert status in (BROKEN, GAP, OTHER_EPOCH, SCANNED)
        assert (pos, next_offset, count) == (len(one), 1, 1), position


def test_gaps_and_limits(scan: ModuleType) -> None:
    data = placed(0) + placed(5) + placed(6)
    size = len(placed(0))
    assert scan.check_batches(data, 0, len(data), 0, 5, FAR, 3) == (GAP, size, 1, 1)
    assert scan.check_batches(data, 0, len(data), 0, 6, FAR, 3) == (SCANNED, 3 * size, 7, 3)
    assert scan.check_batches(data, 0, len(data), 0, FAR, 5, 3) == (BROKEN, 2 * size, 6, 2)
    assert scan.check_batches(data, size, len(data), 6, FAR, FAR, 3) == (BROKEN, size, 6, 0)


def test_another_epoch_is_left_to_the_caller(scan: ModuleType) -> None:
    data = placed(0, epoch=1) + placed(1, epoch=2) + placed(2, epoch=2)
    size = len(placed(0))
    assert scan.check_batches(data, 0, len(data), 0, 0, FAR, 1) == (OTHER_EPOCH, size, 1, 1)
    assert scan.check_batches(data, size, len(data), 1, 0, FAR, 2) == (SCANNED, 3 * size, 3, 2)


def test_the_range_is_checked(scan: ModuleType) -> None:
    for pos, end in ((-1, 1), (2, 1), (0, 2)):
        with pytest.raises(ValueError):
            scan.check_batches(b"x", pos, end, 0, 0, FAR, 0)
        with pytest.raises(ValueError):
            scan.producer_batches(b"x", pos, end, 0)


def test_the_batches_that_determine_the_producer_state(scan: ModuleType) -> None:
    data = bytearray()
    for offset in range(40):
        transactional, control = 10 <= offset < 20, offset == 19
        data += placed(
            offset,
            producer_id=7 if offset % 4 else -1,
            producer_epoch=0,
            base_sequence=-1 if control else offset,
            transactional=transactional,
            control=control,
        )
    status, positions, pos, next_offset = scan.producer_batches(data, 0, len(data), 0)
    assert (status, pos, next_offset) == (SCANNED, len(data), 40)
    offsets = [read_header(data, position).base_offset for position in positions]
    assert offsets == [10, 19, 34, 35, 37, 38, 39]


@given(st.integers(0, 1 << 32))
def test_both_kernels_agree(seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray()
    offset = rng.randrange(1000)
    first = offset
    for _ in range(rng.randrange(40)):
        count = rng.randint(1, 3)
        transactional = rng.random() < 0.4
        data += placed(
            offset,
            epoch=rng.choice([3, 3, 3, 3, 4]),
            count=count,
            producer_id=rng.choice([-1, 1, 2, 3, 1 << 40]),
            producer_epoch=rng.choice([0, 0, 0, 1]),
            base_sequence=rng.randrange(100),
            transactional=transactional,
            control=transactional and rng.random() < 0.3,
        )
        offset += count + (rng.random() < 0.05)
    if data and rng.random() < 0.3:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    end = rng.choice([len(data), rng.randint(0, len(data))])
    for gaps_below in (0, FAR):
        checked = {kernel.check_batches(data, 0, end, first, gaps_below, FAR, 3) for kernel in kernels()}
        assert len(checked) == 1
    found = [kernel.producer_batches(data, 0, end, first) for kernel in kernels()]
    assert all(each == found[0] for each in found)
    good = [position for position, _ in iter_headers(data[: found[0][2]])]
    assert set(found[0][1]) <= set(good)
