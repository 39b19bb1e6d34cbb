"""Whole frames: the size, the header and the body of a request or a response.

The request header has a hand-written reader, because every request needs it.
"""

from __future__ import annotations

from struct import Struct as Layout
from struct import error as StructError  # noqa: N812

from ottla.protocol.api import API_BY_KEY, request_header_version, response_header_version
from ottla.protocol.errors import DecodeError, EncodeError
from ottla.protocol.message import Buffer, Message, Part, Struct
from ottla.protocol.primitives import skip_tags

SIZE_BYTES = 4
FRAME_BYTES_MAX = 0x7FFF_FFFF

_REQUEST_HEAD = Layout(">hhih")
_SIZED_REQUEST_HEAD = Layout(">ihhih")
_INT32 = Layout(">i")
_SIZED_RESPONSE_HEAD = Layout(">ii")
_SIZED_RESPONSE_HEAD_WITH_TAGS = Layout(">iix")
# An unknown API has no flexible versions.
_FLEXIBLE_FROM = {api.key: api.flexible_from for api in API_BY_KEY.values()}
_NEVER = 0x8000


class RequestHead(Struct):
    """The header of a request, and the position of its body."""

    __slots__ = ("api_key", "api_version", "body_pos", "client_id", "correlation_id")

    def __init__(
        self, api_key: int, api_version: int, correlation_id: int, client_id: str | None, body_pos: int
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body_pos = body_pos


def read_request_header(buffer: Buffer, pos: int = 0) -> RequestHead:
    """Read the header of the request at `pos`, after its size.

    Unknown APIs and versions are not errors here: the caller answers them.
    """
    try:
        api_key, version, correlation_id, length = _REQUEST_HEAD.unpack_from(buffer, pos)
        pos += 10
        client_id = None
        if length != -1:
            end = pos + length
            if not pos <= end <= len(buffer):
                raise DecodeError(f"client id of {length} bytes")
            client_id = str(buffer[pos:end], "utf-8")
            pos = end
        if version >= _FLEXIBLE_FROM.get(api_key, _NEVER):
            count = buffer[pos]
            pos += 1
            if count:
                pos = skip_tags(buffer, pos, len(buffer), count)
    except (StructError, IndexError, UnicodeDecodeError) as error:
        raise DecodeError(f"request header: {error}") from error
    return RequestHead(api_key, version, correlation_id, client_id, pos)


def read_response_header(api_key: int, version: int, buffer: Buffer, pos: int = 0) -> tuple[int, int]:
    """Return the correlation id and the position of the body."""
    try:
        (correlation_id,) = _INT32.unpack_from(buffer, pos)
        pos += 4
        if response_header_version(api_key, version):
            count = buffer[pos]
            pos += 1
            if count:
                pos = skip_tags(buffer, pos, len(buffer), count)
    except (StructError, IndexError) as error:
        raise DecodeError(f"response header: {error}") from error
    return correlation_id, pos


def encode_response(api_key: int, version: int, correlation_id: int, message: Message) -> list[Part]:
    """Return the frame of a response in parts, beginning with its size; `records` are not copied."""
    parts = message.encode_parts(version)
    size = sum(map(len, parts)) + 4
    first = parts[0]
    assert type(first) is bytes
    if response_header_version(api_key, version):
        size += 1
        layout = _SIZED_RESPONSE_HEAD_WITH_TAGS
    else:
        layout = _SIZED_RESPONSE_HEAD
    if size > FRAME_BYTES_MAX:
        raise EncodeError(f"response of {size} bytes")
    parts[0] = layout.pack(size, correlation_id) + first
    return parts


def encode_request(version: int, correlation_id: int, client_id: str | None, message: Message) -> bytes:
    """Return the frame of a request, beginning with its size."""
    return b"".join(request_parts(version, correlation_id, client_id, message))  # type: ignore[arg-type]


def request_parts(version: int, correlation_id: int, client_id: str | None, message: Message) -> list[Part]:
    """Return the frame of a request in parts, so that the `records` of a produce request are not copied."""
    parts = message.encode_parts(version)
    first = parts[0]
    assert type(first) is bytes
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    if length > 0x7FFF:
        raise EncodeError(f"client id of {length} bytes")
    tags = b"\0" if request_header_version(message.API_KEY, version) == 2 else b""
    size = 10 + len(name) + len(tags) + sum(map(len, parts))
    if size > FRAME_BYTES_MAX:
        raise EncodeError(f"request of {size} bytes")
    head = _SIZED_REQUEST_HEAD.pack(size, message.API_KEY, version, correlation_id, length)
    parts[0] = b"".join((head, name, tags, first))
    return parts
