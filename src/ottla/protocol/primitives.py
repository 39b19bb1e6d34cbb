"""Functions for the wire format, used by the compiled and the hand-written codecs."""

from __future__ import annotations

from struct import Struct as Layout
from struct import unpack_from

from ottla.protocol.errors import DecodeError, EncodeError

STRING_BYTES_MAX = 0x7FFF
UVARINT_MAX = 0xFFFF_FFFF

# Tables for one-byte varints and short int32 arrays, which cover nearly all lengths.
UVARINT_BYTE: tuple[bytes, ...] = tuple(bytes((value,)) for value in range(128))
SHORT_ARRAY_MAX = 8
UNPACK_INT32S = tuple(Layout(f">{count}i").unpack_from for count in range(SHORT_ARRAY_MAX))
PACK_COMPACT_INT32S = tuple(Layout(f">B{count}i").pack for count in range(SHORT_ARRAY_MAX))
PACK_INT32S = tuple(Layout(f">i{count}i").pack for count in range(SHORT_ARRAY_MAX))


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint: groups of seven bits, lowest first."""
    if value < 128:
        return UVARINT_BYTE[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: bytes | bytearray | memoryview, pos: int) -> tuple[int, int]:
    """Return the value of at most 32 bits and the position after it. Raises DecodeError."""
    try:
        first = buffer[pos]
        return (first, pos + 1) if first < 128 else uvarint_rest(buffer, pos + 1, first)
    except IndexError as error:
        raise DecodeError("incomplete varint") from error


def uvarint_rest(buffer: bytes | bytearray | memoryview, pos: int, first: int) -> tuple[int, int]:
    """Continue after a first byte above 127. Raises IndexError at the end of the buffer."""
    value = first & 127
    for shift in (7, 14, 21, 28):
        byte = buffer[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > UVARINT_MAX:
                break
            return value, pos
    raise DecodeError("varint is longer than 32 bits")


def string_size_rest(buffer: bytes | bytearray | memoryview, pos: int, first: int) -> tuple[int, int]:
    """Like uvarint_rest, for the length (plus one) of a compact string."""
    value, pos = uvarint_rest(buffer, pos, first)
    if value > STRING_BYTES_MAX + 1:
        raise DecodeError(f"string of {value - 1} bytes")
    return value, pos


def string_size(length: int) -> bytes:
    """Return the prefix of a compact string."""
    if length > STRING_BYTES_MAX:
        raise EncodeError(f"string of {length} bytes")
    return uvarint(length + 1)


def skip_tags(buffer: bytes | bytearray | memoryview, pos: int, end: int, count: int) -> int:
    """Skip unknown tagged fields; `count` is the first byte of their number."""
    if count > 127:
        count, pos = uvarint_rest(buffer, pos, count)
    last = -1
    for _ in range(count):
        tag, pos = read_uvarint(buffer, pos)
        size, pos = read_uvarint(buffer, pos)
        if tag <= last:
            raise DecodeError(f"tag {tag} after tag {last}")
        last = tag
        pos += size
        if pos > end:
            raise DecodeError(f"tag {tag} of {size} bytes goes past the end")
    return pos


def read_fixed_array(code: str, buffer: bytes | bytearray | memoryview, pos: int, count: int) -> list[int]:
    """Return `count` numbers; the caller has checked the length."""
    return list(unpack_from(f">{count}{code}", buffer, pos))


def read_uuid_array(buffer: bytes | bytearray | memoryview, pos: int, count: int) -> list[bytes]:
    return [bytes(buffer[at : at + 16]) for at in range(pos, pos + 16 * count, 16)]


def uuid_array(uuids: list[bytes]) -> bytes:
    if any(len(uuid) != 16 for uuid in uuids):
        raise EncodeError("a uuid has 16 bytes")
    return b"".join(uuids)
