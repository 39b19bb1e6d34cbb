"""Frames are complete however the network splits them, and memory follows the received bytes."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.net.receive_buffer import COMFORT_BYTES, INITIAL_BYTES, KEEP_BYTES, BadFrame, ReceiveBuffer


def feed(buffer: ReceiveBuffer, data: bytes, cuts: list[int]) -> list[bytes]:
    """Push bytes as a socket would, at most `cut` at a time, and take every frame."""
    frames: list[bytes] = []
    position = 0
    turn = 0
    while position < len(data):
        space = buffer.space()
        assert len(space) > 0
        count = min(len(space), cuts[turn % len(cuts)], len(data) - position)
        turn += 1
        space[:count] = data[position : position + count]
        buffer.end += count
        position += count
        views = []
        while (frame := buffer.next_frame()) is not None:
            views.append(frame)
        frames += [bytes(view) for view in views]
        buffer.make_room()
    return frames


def framed(frames: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


@settings(max_examples=200)
@given(
    sizes=st.lists(
        st.one_of(st.integers(0, 40), st.integers(8000, 9000), st.integers(0, 400_000)),
        min_size=1,
        max_size=12,
    ),
    cuts=st.lists(st.integers(1, 70_000), min_size=1, max_size=5),
    seed=st.integers(0, 2**32),
)
def test_any_split_of_the_bytes_gives_the_same_frames(sizes: list[int], cuts: list[int], seed: int) -> None:
    rng = random.Random(seed)
    frames = [rng.randbytes(size) for size in sizes]
    data = framed(frames)
    if len(data) / min(cuts) > 50_000:
        cuts = [max(cuts[0], 1000)]
    assert feed(ReceiveBuffer(1_000_000), data, cuts) == frames


def test_a_large_frame_grows_the_buffer_and_releases_it() -> None:
    buffer = ReceiveBuffer(100_000_000)
    big = bytes(KEEP_BYTES + 1000)
    assert feed(buffer, framed([big, b"x"]), [65536]) == [big, b"x"]
    assert buffer.capacity_bytes <= COMFORT_BYTES


def test_an_announced_size_allocates_nothing() -> None:
    buffer = ReceiveBuffer(100_000_000)
    feed(buffer, struct.pack(">i", 100_000_000) + b"tiny", [100])
    assert buffer.capacity_bytes == INITIAL_BYTES


def test_memory_is_bounded_by_the_received_bytes() -> None:
    buffer = ReceiveBuffer(100_000_000)
    feed(buffer, struct.pack(">i", 90_000_000) + bytes(3_000_000), [65536])
    assert buffer.capacity_bytes <= 4 * 3_000_004 + COMFORT_BYTES


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
def test_impossible_sizes_are_refused(size: int) -> None:
    buffer = ReceiveBuffer(1000)
    with pytest.raises(BadFrame, match=r"socket\.request\.max\.bytes"):
        feed(buffer, struct.pack(">i", size), [4])


def test_shrink_keeps_pending_bytes() -> None:
    buffer = ReceiveBuffer(1_000_000)
    frames = [bytes(7000)] * 40
    data = framed(frames)
    assert feed(buffer, data[:-10], [INITIAL_BYTES]) == frames[:-1]
    buffer.shrink()
    assert feed(buffer, data[-10:], [100]) == frames[-1:]
    buffer.shrink()
    assert buffer.capacity_bytes == INITIAL_BYTES
