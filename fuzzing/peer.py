"""A blocking client that sends arbitrary bytes and reads whole responses."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from types import TracebackType
from typing import Any, Self

from ottla.protocol.api import API_BY_KEY
from ottla.protocol.frames import encode_request, read_response_header
from ottla.protocol.message import Message

TIMEOUT_S = 30.0
CLIENT_ID = "hostile"


class PeerClosed(ConnectionError):
    """The broker closed the connection instead of responding."""


class Peer:
    """One connection to a broker at `address` (host:port)."""

    def __init__(self, address: str, timeout_s: float = TIMEOUT_S, receive_buffer_bytes: int = 0) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(timeout_s)
        self.socket.connect((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def call(self, message: Message, version: int) -> Any:
        """Send a request and decode the response strictly, without trailing bytes."""
        self._correlation_id += 1
        self.send(encode_request(version, self._correlation_id, CLIENT_ID, message))
        return self.answer(message.API_KEY, version, self._correlation_id)

    def answer(self, api_key: int, version: int, correlation_id: int) -> Any:
        """Read the next response, which must have this correlation id."""
        frame = self.read_frame()
        found, pos = read_response_header(api_key, version, frame)
        if found != correlation_id:
            raise AssertionError(f"response to request {found}, expected {correlation_id}")
        return API_BY_KEY[api_key].response_class().decode(version, frame, pos)

    def read_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._read(4))
        if size < 4:
            raise AssertionError(f"the broker sent a frame of {size} bytes")
        return self._read(size)

    def _read(self, nbytes: int) -> bytes:
        parts = []
        while nbytes:
            data = self.socket.recv(min(nbytes, 1 << 20))
            if not data:
                raise PeerClosed(f"closed with {nbytes} bytes missing")
            parts.append(data)
            nbytes -= len(data)
        return b"".join(parts)

    def closed_by_broker(self, within_s: float = 5.0) -> bool:
        """Return whether the broker closes the connection within this time; discard responses."""
        deadline_s = time.monotonic() + within_s
        try:
            while (left_s := deadline_s - time.monotonic()) > 0:
                self.socket.settimeout(left_s)
                if not self.socket.recv(1 << 16):
                    return True
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        return False

    def drain(self) -> bytes:
        """Return what has arrived, without waiting."""
        parts = []
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while data := self.socket.recv(1 << 16):
                parts.append(data)
        return b"".join(parts)
