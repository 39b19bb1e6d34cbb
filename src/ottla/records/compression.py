"""The codecs of record batches: gzip, snappy, lz4 and zstd, with a limit on the decompressed size.

Input from clients is not trusted: nothing is decompressed beyond `limit_bytes`, whatever sizes the stream
claims. Two framings are implemented here. Snappy is split into blocks with xerial's framing, as in the Java
client; librdkafka sends one raw block, and both are read. LZ4 frames are written block by block because the
Java client rejects frames with dependent blocks.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.records.batch import Buffer, RecordsError

if TYPE_CHECKING:
    from mmap import mmap

NONE = 0
GZIP = 1
SNAPPY = 2
LZ4 = 3
ZSTD = 4

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
CODEC_BY_NAME = {name: code for code, name in enumerate(CODEC_NAMES)} | {"uncompressed": NONE}

GZIP_LEVEL_DEFAULT = 6
ZSTD_LEVEL_DEFAULT = 3

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
# A copy of 64 bytes takes three bytes of input: the maximum expansion of a snappy block.
_SNAPPY_RATIO_MAX = 22

# Frame header: independent blocks of 64 KB, no checksums; the last byte is the header checksum.
_LZ4_HEADER = bytes.fromhex("04224d18604082")
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_END = b"\0\0\0\0"
_LZ4_STORED_BIT = 0x80000000
# Each byte of a match length adds 255 bytes of output: the maximum expansion of the format.
_LZ4_RATIO_MAX = 255

_BUFFER_BYTES_MIN = 64 * 1024
_RATIO_FIRST = 4.0
_RATIO_KEPT_MAX = 8.0  # malloc would keep a larger block after a hostile batch
_SCRATCH_BYTES_MAX = 64 * 1024 * 1024
_MAPPING_BYTES_MIN = 4 * 1024 * 1024
_OUTPUT_FULL = "failed to write whole buffer"

_INT32 = struct.Struct(">i")
_UINT32_LE = struct.Struct("<I")


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress the records of a batch; `level` is specific to the codec, None its default."""
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        import zlib

        packer = zlib.compressobj(GZIP_LEVEL_DEFAULT if level is None else level, zlib.DEFLATED, 31)
        return packer.compress(data) + packer.flush()
    if codec == SNAPPY:
        return _snappy_compress(data)
    if codec == LZ4:
        return _lz4_compress(data, level)
    if codec == ZSTD:
        import cramjam

        return bytes(cramjam.zstd.compress(data, level=ZSTD_LEVEL_DEFAULT if level is None else level))
    raise ValueError(f"unknown codec {codec}")


class Scratch:
    """Reusable memory for decompressed data: fresh pages cost as much as decompressing into them.

    What was decompressed since `clear` stays valid until the next `clear`.
    """

    __slots__ = ("_memory", "_taken_bytes")

    def __init__(self) -> None:
        self._memory: bytearray | mmap = bytearray()
        self._taken_bytes = 0

    def clear(self) -> None:
        self._taken_bytes = 0

    def reserve(self, size_bytes: int) -> memoryview:
        """Return memory for the next piece; `keep` then says how much of it was used."""
        if size_bytes > _SCRATCH_BYTES_MAX:
            return memoryview(_allocate(size_bytes))
        if self._taken_bytes + size_bytes > len(self._memory):
            # Views of the old memory keep it alive.
            more_bytes = min(2 * len(self._memory), _SCRATCH_BYTES_MAX)
            self._memory = _allocate(max(size_bytes, more_bytes))
            self._taken_bytes = 0
        return memoryview(self._memory)[self._taken_bytes : self._taken_bytes + size_bytes]

    def keep(self, target: memoryview, size_bytes: int) -> memoryview:
        if target.obj is self._memory:
            self._taken_bytes += size_bytes
        return target[:size_bytes]


def _allocate(size_bytes: int) -> bytearray | mmap:
    """Memory of this size. A mapping goes back to the kernel when it is released, which malloc does not do
    with large blocks after a hostile batch."""
    if size_bytes < _MAPPING_BYTES_MIN:
        return bytearray(size_bytes)
    from mmap import mmap

    return mmap(-1, size_bytes)


def decompress(codec: int, data: Buffer, limit_bytes: int, scratch: Scratch | None = None) -> Buffer:
    """Decompress the records of a batch; reject invalid data and anything beyond `limit_bytes`."""
    scratch = scratch if scratch is not None else Scratch()
    if codec == NONE:
        if len(data) > limit_bytes:
            raise _too_large(limit_bytes)
        return bytes(data)
    if codec == GZIP:
        return _gzip_decompress(data, limit_bytes)
    if codec == SNAPPY:
        return _snappy_decompress(memoryview(data), limit_bytes, scratch)
    if codec == LZ4:
        return _into_bounded(LZ4, data, min(limit_bytes, len(data) * _LZ4_RATIO_MAX), limit_bytes, scratch)
    if codec == ZSTD:
        return _into_bounded(ZSTD, data, limit_bytes, limit_bytes, scratch)
    raise RecordsError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression codec {codec}")


def _too_large(limit_bytes: int) -> RecordsError:
    return RecordsError(ErrorCode.MESSAGE_TOO_LARGE, f"Records decompress to more than {limit_bytes} bytes")


def _garbage(codec: int, reason: object) -> RecordsError:
    return RecordsError(
        ErrorCode.INVALID_RECORD, f"Records are not valid {CODEC_NAMES[codec]} data: {reason}"
    )


def _gzip_decompress(data: Buffer, limit_bytes: int) -> bytes:
    import zlib

    parts: list[bytes] = []
    left_bytes = limit_bytes
    rest: Buffer = data
    while True:
        member = zlib.decompressobj(31)
        try:
            # One byte more than allowed distinguishes "exactly full" from "too much"; 0 would mean no limit.
            part = member.decompress(rest, left_bytes + 1)
        except zlib.error as error:
            raise _garbage(GZIP, error) from None
        if len(part) > left_bytes:
            raise _too_large(limit_bytes)
        if not member.eof:
            raise _garbage(GZIP, "the stream is incomplete")
        parts.append(part)
        left_bytes -= len(part)
        rest = member.unused_data
        if not rest:
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy_compress(data: Buffer) -> bytes:
    import cramjam

    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _snappy_decompress(data: memoryview, limit_bytes: int, scratch: Scratch) -> memoryview:
    import cramjam

    blocks = _snappy_blocks(data) if data[:8] == _XERIAL_MAGIC else [data]
    try:
        sizes = [_snappy_size(block) for block in blocks]
        total_bytes = sum(sizes)
        if total_bytes > limit_bytes:
            raise _too_large(limit_bytes)
        target = scratch.reserve(total_bytes)
        pos = 0
        for block, size_bytes in zip(blocks, sizes, strict=True):
            pos += cramjam.snappy.decompress_raw_into(block, target[pos : pos + size_bytes])
    except cramjam.DecompressionError as error:
        raise _garbage(SNAPPY, error) from None
    if pos != total_bytes:
        raise _garbage(SNAPPY, f"{pos} bytes instead of {total_bytes}")
    return scratch.keep(target, total_bytes)


def _snappy_blocks(data: memoryview) -> list[memoryview]:
    """Yield the blocks in xerial's framing."""
    blocks = []
    pos = 0
    while pos < len(data):
        if data[pos : pos + 8] == _XERIAL_MAGIC:  # streams may be concatenated
            pos += len(_XERIAL_HEADER)
            if pos > len(data):
                raise _garbage(SNAPPY, "the stream header is incomplete")
            continue
        if len(data) - pos < 4:
            raise _garbage(SNAPPY, "a block length is incomplete")
        (block_bytes,) = _INT32.unpack_from(data, pos)
        pos += 4
        if not 0 < block_bytes <= len(data) - pos:
            raise _garbage(SNAPPY, f"block of {block_bytes} bytes, but only {len(data) - pos} are left")
        blocks.append(data[pos : pos + block_bytes])
        pos += block_bytes
    return blocks


def _snappy_size(block: memoryview) -> int:
    import cramjam

    claimed_bytes: int = cramjam.snappy.decompress_raw_len(block)
    if claimed_bytes > len(block) * _SNAPPY_RATIO_MAX:
        raise _garbage(SNAPPY, f"{len(block)} bytes cannot expand to {claimed_bytes}")
    return claimed_bytes


def _lz4_compress(data: Buffer, level: int | None) -> bytes:
    import cramjam

    view = memoryview(data)
    # The default is the fast compressor, as in the Java client; a level selects high compression.
    parts = [_LZ4_HEADER]
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):
        plain = view[start : start + _LZ4_BLOCK_BYTES]
        if level is None:
            block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        else:
            block = bytes(
                cramjam.lz4.compress_block(
                    plain, mode="high_compression", compression=level, store_size=False
                )
            )
        if len(block) < len(plain):
            parts += (_UINT32_LE.pack(len(block)), block)
        else:
            parts += (_UINT32_LE.pack(len(plain) | _LZ4_STORED_BIT), bytes(plain))
    parts.append(_LZ4_END)
    return b"".join(parts)


# The assumed expansion factor of each codec: batches resemble the previous ones.
_ratios = {LZ4: _RATIO_FIRST, ZSTD: _RATIO_FIRST}


def _into_bounded(
    codec: int, data: Buffer, useful_bytes: int, limit_bytes: int, scratch: Scratch
) -> memoryview:
    """Decompress into memory of fixed size; increase it while it is too small, up to `useful_bytes`."""
    import cramjam

    module = cramjam.lz4 if codec == LZ4 else cramjam.zstd
    size_bytes = min(max(_BUFFER_BYTES_MIN, int(_ratios[codec] * len(data))), useful_bytes)
    while True:
        target = scratch.reserve(size_bytes)
        try:
            written_bytes = module.decompress_into(data, target)
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise _garbage(codec, error) from None
            if size_bytes >= useful_bytes:
                raise _too_large(limit_bytes) from None
            size_bytes = min(size_bytes * 4, useful_bytes)
            continue
        if written_bytes > _BUFFER_BYTES_MIN:
            # Slightly more than this time, and back slowly after an unusual batch.
            likely = max(1.125 * written_bytes / len(data), 0.9 * _ratios[codec])
            _ratios[codec] = min(max(likely, _RATIO_FIRST), _RATIO_KEPT_MAX)
        return scratch.keep(target, written_bytes)
