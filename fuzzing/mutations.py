"""Mutations of recorded requests: pure functions of a frame, other frames, and a random generator."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

from fuzzing.batches import HEADER_FIELDS, fix_crc
from fuzzing.recorder import RecordedFrame

BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF)
INT16S = (0, -1, 1, 0x7FFF, -0x8000)
INT32S = (0, -1, 1, 0x7FFF_FFFF, -0x8000_0000, 0x10000, 100 << 20, (100 << 20) + 1)
INT64S = (0, -1, 2**63 - 1, -(2**63), 2**31)
GROWTH_BYTES_MAX = 64 * 1024

Mutation = Callable[[random.Random, bytearray, Sequence[RecordedFrame]], bytearray]


def sized(data: bytes | bytearray) -> bytes:
    return struct.pack(">i", len(data)) + data


def flip_bits(rng: random.Random, data: bytearray, _: Sequence[RecordedFrame]) -> bytearray:
    for _n in range(rng.choice((1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data


def overwrite_bytes(rng: random.Random, data: bytearray, _: Sequence[RecordedFrame]) -> bytearray:
    for _n in range(rng.choice((1, 1, 3))):
        data[rng.randrange(len(data))] = rng.choice(BYTES)
    return data


def overwrite_number(rng: random.Random, data: bytearray, _: Sequence[RecordedFrame]) -> bytearray:
    """Overwrite a number at a random position: sooner or later a length or count."""
    layout, values = rng.choice(((">h", INT16S), (">i", INT32S), (">q", INT64S)))
    size = struct.calcsize(layout)
    if len(data) > 4 + size:
        struct.pack_into(layout, data, rng.randrange(4, len(data) - size + 1), rng.choice(values))
    return data


def add_to_byte(rng: random.Random, data: bytearray, _: Sequence[RecordedFrame]) -> bytearray:
    """Change a byte by a small amount: off-by-one errors that length checks may miss."""
    position = rng.randrange(len(data))
    data[position] = (data[position] + rng.choice((-2, -1, 1, 2, 16))) & 0xFF
    return data


def truncate(rng: random.Random, data: bytearray, _: Sequence[RecordedFrame]) -> bytearray:
    return data[: rng.randrange(len(data))]


def append_garbage(rng: random.Random, data: bytearray, _: Sequence[RecordedFrame]) -> bytearray:
    return data + rng.randbytes(rng.choice((1, 4, 100, 5000)))


def remove_piece(rng: random.Random, data: bytearray, _: Sequence[RecordedFrame]) -> bytearray:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randint(1, 16) :]


def duplicate_piece(rng: random.Random, data: bytearray, _: Sequence[RecordedFrame]) -> bytearray:
    start = rng.randrange(len(data))
    end = min(len(data), start + rng.randint(1, 100))
    times = rng.choice((1, 1, 2, 50))
    return (data[:end] + data[start:end] * times + data[end:])[:GROWTH_BYTES_MAX]


def splice(rng: random.Random, data: bytearray, frames: Sequence[RecordedFrame]) -> bytearray:
    other = rng.choice(frames).data
    return data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]


def other_version(rng: random.Random, data: bytearray, _: Sequence[RecordedFrame]) -> bytearray:
    """The body of one version read as another."""
    if len(data) >= 4:
        version = rng.choice((rng.randrange(20), rng.randrange(20), -1, 0x7FFF, -0x8000))
        struct.pack_into(">h", data, 2, version)
    return data


def other_api(rng: random.Random, data: bytearray, _: Sequence[RecordedFrame]) -> bytearray:
    if len(data) >= 4:
        api_key = rng.choice((rng.randrange(100), rng.randrange(100), -1, 0x7FFF))
        struct.pack_into(">hh", data, 0, api_key, rng.randrange(18))
    return data


def edit_batch_header(rng: random.Random, data: bytearray, frames: Sequence[RecordedFrame]) -> bytearray:
    """Change a header field of the record batch in a Produce request and fix the checksum."""
    found = find_batch(data)
    if found is None:
        return overwrite_number(rng, data, frames)
    start, end = found
    batch = data[start:end]
    position, layout = rng.choice(list(HEADER_FIELDS.values()))
    bits = struct.calcsize(layout) * 8
    value = rng.choice((0, 1, -1, (1 << bits - 1) - 1, -(1 << bits - 1), rng.randrange(1 << bits - 1)))
    struct.pack_into(layout, batch, position, value)
    data[start:end] = fix_crc(batch) if rng.random() < 0.8 else batch
    return data


def edit_batch_body(rng: random.Random, data: bytearray, frames: Sequence[RecordedFrame]) -> bytearray:
    found = find_batch(data)
    if found is None:
        return flip_bits(rng, data, frames)
    start, end = found
    data[start:end] = fix_crc(rng.choice((flip_bits, overwrite_bytes))(rng, data[start:end], frames))
    return data


def find_batch(data: bytes | bytearray) -> tuple[int, int] | None:
    """Find a record batch in a frame by its length and magic byte."""
    for start in range(10, len(data) - 61):
        if data[start + 16] == 2 and not any(data[start : start + 8]):
            end = start + 12 + int(struct.unpack_from(">i", data, start + 8)[0])
            if start + 61 < end <= len(data):
                return start, end
    return None


MUTATIONS: tuple[Mutation, ...] = (
    flip_bits,
    overwrite_bytes,
    overwrite_number,
    overwrite_number,
    add_to_byte,
    truncate,
    append_garbage,
    remove_piece,
    duplicate_piece,
    splice,
    other_version,
    other_api,
    edit_batch_header,
    edit_batch_header,
    edit_batch_body,
)


def mutated(rng: random.Random, frames: Sequence[RecordedFrame]) -> bytes:
    """Return a recorded frame with one or a few mutations and a length prefix."""
    data = bytearray(rng.choice(frames).data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if data:
            data = rng.choice(MUTATIONS)(rng, data, frames)
    if rng.random() < 0.05:
        return struct.pack(">i", rng.choice(INT32S)) + data
    return sized(data)


def garbage(rng: random.Random) -> bytes:
    return rng.choice(
        (
            rng.randbytes(rng.choice((1, 3, 4, 16, 1000))),
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(100),  # a TLS hello
            b"\0" * rng.choice((4, 8, 100)),
            b"\xff" * 64,
        )
    )


def pieces(rng: random.Random, data: bytes) -> list[bytes]:
    """Split bytes into several writes."""
    count = rng.choice((1, 1, 1, 2, 5))
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(count - 1))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
