"""A connection to another node of the cluster: requests out, responses in, any number under way.

Nodes run the same software, so requests go out in the newest version that we know; a peer that does not
understand closes the connection, as any broker does.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any, TypeVar, cast

from ottla.broker.net.receive_buffer import BadFrame, ReceiveBuffer
from ottla.protocol.api import API_BY_KEY
from ottla.protocol.errors import DecodeError
from ottla.protocol.frames import encode_request, read_response_header
from ottla.protocol.message import Message

log = logging.getLogger("ottla.peer")

FRAME_BYTES_MAX = 128 * 1024 * 1024
CORRELATION_MAX = 2**31 - 1

Response = TypeVar("Response", bound=Message)


class PeerLost(ConnectionError):
    """The peer cannot be reached, or the connection ended before the answer came.

    `disconnected`: its machine said so (refused, reset, closed), as it does for a process that has died.
    """

    def __init__(self, message: str, *, disconnected: bool) -> None:
        super().__init__(message)
        self.disconnected = disconnected


class _Call:
    __slots__ = ("api_key", "correlation_id", "future", "response_class", "version")

    def __init__(
        self, message: Message, version: int, response_class: type[Message], correlation_id: int
    ) -> None:
        self.api_key = message.API_KEY
        self.version = version
        self.response_class = response_class
        self.correlation_id = correlation_id
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class PeerProtocol(asyncio.BufferedProtocol):
    """One TCP connection; calls are answered in the order in which they were made."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._buffer = ReceiveBuffer(FRAME_BYTES_MAX)
        self._calls: deque[_Call] = deque()
        self._transport: asyncio.Transport | None = None
        self._next_correlation_id = 0
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.space()

    def buffer_updated(self, nbytes: int) -> None:
        self._buffer.received(nbytes)
        try:
            while (frame := self._buffer.next_frame()) is not None:
                self._take(frame)
            self._buffer.make_room()
        except (BadFrame, DecodeError) as error:
            log.warning("answer not understood, connection closed: %s", error)
            self.close()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def call(
        self, message: Message, version: int, response_class: type[Response]
    ) -> asyncio.Future[Response]:
        """Send a request; the future is the response, or PeerLost."""
        if self.closed or self._transport is None:
            raise PeerLost("the connection is closed", disconnected=True)
        call = _Call(message, version, response_class, self._next_correlation_id)
        self._next_correlation_id = (self._next_correlation_id + 1) & CORRELATION_MAX
        self._transport.write(encode_request(version, call.correlation_id, self._client_id, message))
        self._calls.append(call)
        return call.future

    def close(self) -> None:
        self._end()
        if self._transport is not None:
            self._transport.abort()

    def _take(self, frame: memoryview) -> None:
        if not self._calls:
            raise DecodeError("an answer that nobody asked for")
        call = self._calls.popleft()
        # The buffer is read into again before whoever waits looks at the records: they get bytes of their
        # own.
        data = bytes(frame)
        correlation_id, pos = read_response_header(call.api_key, call.version, data)
        if correlation_id != call.correlation_id:
            raise DecodeError(f"answer {correlation_id} where {call.correlation_id} was due")
        response = call.response_class.decode(call.version, data, pos)
        if not call.future.done():
            call.future.set_result(response)

    def _end(self) -> None:
        if self.closed:
            return
        self.closed = True
        calls, self._calls = self._calls, deque()
        for call in calls:
            if not call.future.done():
                error = PeerLost("the connection ended before the answer", disconnected=True)
                call.future.set_exception(error)


class Peer:
    """A node at an address: connects when asked for, and again after a loss."""

    def __init__(self, host: str, port: int, client_id: str, connect_timeout_ms: int = 2000) -> None:
        self.host = host
        self.port = port
        self._client_id = client_id
        self._connect_timeout_ms = connect_timeout_ms
        self._protocol: PeerProtocol | None = None
        self._connecting: asyncio.Lock = asyncio.Lock()

    def __repr__(self) -> str:
        return f"{self.host}:{self.port}"

    async def call(
        self,
        message: Message,
        response_class: type[Response],
        *,
        timeout_ms: int,
        version: int | None = None,
    ) -> Response:
        """The response; PeerLost if there is no connection or no answer in time."""
        if version is None:
            version = API_BY_KEY[message.API_KEY].max_version
        protocol = self._protocol
        if protocol is None or protocol.closed:
            protocol = await self.connect()
        future = protocol.call(message, version, response_class)
        try:
            return await asyncio.wait_for(future, timeout_ms / 1000)
        except TimeoutError:
            # Later answers would be taken for the answer to something else.
            protocol.close()
            raise PeerLost(f"{self} did not answer within {timeout_ms} ms", disconnected=False) from None

    def close(self) -> None:
        if self._protocol is not None:
            self._protocol.close()
            self._protocol = None

    async def connect(self) -> PeerProtocol:
        """The connection, made if there is none; PeerLost if it cannot be."""
        async with self._connecting:
            if self._protocol is not None and not self._protocol.closed:
                return self._protocol
            loop = asyncio.get_running_loop()
            try:
                _, protocol = await asyncio.wait_for(
                    loop.create_connection(lambda: PeerProtocol(self._client_id), self.host, self.port),
                    self._connect_timeout_ms / 1000,
                )
            except TimeoutError as error:
                raise PeerLost(f"{self} cannot be reached in time", disconnected=False) from error
            except OSError as error:
                refused = isinstance(error, ConnectionError)
                raise PeerLost(f"{self} cannot be reached: {error}", disconnected=refused) from error
            self._protocol = protocol
            return protocol
