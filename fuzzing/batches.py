"""Invalid record batches, with a valid checksum where deeper checks are the target."""

from __future__ import annotations

import functools
import random
import struct
import zlib

from ottla.records.batch import HEADER_BYTES
from ottla.records.build import build_batch
from ottla.records.checksum import crc32c
from ottla.records.compression import GZIP, LZ4, SNAPPY, ZSTD, compress

CRC_POS = 17
ATTRIBUTES_POS = 21
CODECS = 5
_INTERESTING = (0, 1, 0x7F, 0x80, 0xFF)
# Offset and format of each header field.
HEADER_FIELDS = {
    "base_offset": (0, ">q"),
    "batch_length": (8, ">i"),
    "leader_epoch": (12, ">i"),
    "magic": (16, ">b"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "base_timestamp": (27, ">q"),
    "max_timestamp": (35, ">q"),
    "producer_id": (43, ">q"),
    "producer_epoch": (51, ">h"),
    "base_sequence": (53, ">i"),
    "records_count": (57, ">i"),
}


def fix_crc(batch: bytearray) -> bytearray:
    """Recompute the checksum, so that later checks are reached."""
    if len(batch) >= HEADER_BYTES:
        struct.pack_into(">I", batch, CRC_POS, crc32c(batch[ATTRIBUTES_POS:]))
    return batch


def with_field(batch: bytes | bytearray, name: str, value: int, *, crc: bool = True) -> bytearray:
    """Return a copy with one header field changed."""
    changed = bytearray(batch)
    position, layout = HEADER_FIELDS[name]
    struct.pack_into(layout, changed, position, value)
    return fix_crc(changed) if crc else changed


def ordinary_batch(now_ms: int, count: int = 3, codec: int = 0, **options: int) -> bytearray:
    records = [(now_ms, b"key %d" % n, b"value %d" % n, ()) for n in range(count)]
    return build_batch(records, codec=codec, **options)  # type: ignore[arg-type]


def with_payload(now_ms: int, codec: int, payload: bytes, count: int) -> bytearray:
    """Return a batch with a valid header and `payload` as its records section."""
    batch = ordinary_batch(now_ms, 1)[:HEADER_BYTES] + payload
    position, layout = HEADER_FIELDS["batch_length"]
    struct.pack_into(layout, batch, position, len(batch) - 12)
    for name, value in (("attributes", codec), ("records_count", count), ("last_offset_delta", count - 1)):
        position, layout = HEADER_FIELDS[name]
        struct.pack_into(layout, batch, position, value)
    return fix_crc(batch)


@functools.cache
def bomb(codec: int, nbytes: int) -> bytes:
    """Return a small stream that decompresses to `nbytes` zeros, or claims to."""
    if codec == GZIP:
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        block = bytes(1 << 20)
        parts = [packer.compress(block) for _ in range(nbytes >> 20)]
        return b"".join([*parts, packer.flush()])
    if codec == SNAPPY:
        # Snappy compresses to 5 % at best: the rest is a false length.
        claim = b""
        left = min(nbytes, 0xFFFFFFFF)
        while left >= 0x80:
            claim += bytes([left & 0x7F | 0x80])
            left >>= 7
        return claim + bytes([left]) + b"\xfe\x01\x00" * 100
    assert codec in (LZ4, ZSTD)
    block = compress(codec, bytes(1 << 20))
    return block * (nbytes >> 20)  # both formats allow concatenated frames


def hostile_batch(rng: random.Random, now_ms: int) -> bytes:
    """Return a batch with one defect, or a valid one."""
    batch = ordinary_batch(
        now_ms, rng.choice((1, 1, 3, 20)), rng.randrange(CODECS), **rng.choice((_NOTHING, _producer(rng)))
    )
    kind = rng.randrange(8)
    if kind == 0:
        return bytes(batch)
    if kind == 1:
        return bytes(_flip(rng, batch))
    if kind == 2:
        return bytes(fix_crc(_flip(rng, batch)))
    if kind == 3:
        return rng.randbytes(rng.choice((0, 1, 16, 17, 60, 61, 200)))
    if kind == 4:
        return bytes(batch[: rng.randrange(len(batch))])
    if kind == 5:
        return bytes(batch + batch)
    if kind == 6:
        payload = rng.randbytes(rng.choice((0, 1, 10, 100)))
        return bytes(with_payload(now_ms, rng.randrange(8), payload, rng.choice((1, 2, 1 << 30))))
    name = rng.choice(list(HEADER_FIELDS))
    size = struct.calcsize(HEADER_FIELDS[name][1]) * 8
    value = rng.choice((-1, 0, 1, (1 << size - 1) - 1, -(1 << size - 1), rng.randrange(1 << size - 1)))
    return bytes(with_field(batch, name, value, crc=rng.random() < 0.9))


_NOTHING: dict[str, int] = {}


def _producer(rng: random.Random) -> dict[str, int]:
    return {
        "producer_id": rng.randrange(3),
        "producer_epoch": rng.choice((0, 0, 1, 32767)),
        "base_sequence": rng.choice((0, 1, 3, 2**31 - 1, 2**31 - 2)),
    }


def _flip(rng: random.Random, batch: bytearray) -> bytearray:
    for _ in range(rng.choice((1, 1, 2, 5))):
        position = rng.randrange(len(batch))
        if rng.random() < 0.5:
            batch[position] ^= 1 << rng.randrange(8)
        else:
            batch[position] = rng.choice(_INTERESTING)
    return batch
