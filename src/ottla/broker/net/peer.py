"""Connections to other nodes of the cluster: requests out, responses in, any number in flight.

`PeerConnection` is one TCP connection. `Peer` is a node at an address: it connects on demand and reconnects
after a loss.

Nodes run the same software, so requests are sent in the newest stable version; a peer that does not know it
closes the connection, as any broker does.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar, cast

from ottla.broker.net.receive_buffer import BadFrame, ReceiveBuffer
from ottla.protocol.api import API_BY_KEY
from ottla.protocol.errors import DecodeError
from ottla.protocol.frames import FRAME_BYTES_MAX, encode_request, read_response_header
from ottla.protocol.message import Message

log = logging.getLogger("ottla.peer")

# Of responses other than those with replicated records.
RESPONSE_BYTES_MAX = 128 * 1024 * 1024
CORRELATION_ID_MAX = 2**31 - 1

Response = TypeVar("Response", bound=Message)
# Receives a response; may return an iterator to process it in steps.
OnResponse = Callable[[Any], Iterator[None] | None]


class PeerLost(ConnectionError):
    """The peer cannot be reached, or the connection ended before the response.

    `disconnected`: the peer's machine reported it (refused, reset, closed), as it does for a dead process.
    """

    def __init__(self, message: str, *, disconnected: bool) -> None:
        super().__init__(message)
        self.disconnected = disconnected


class _Call(NamedTuple):
    """A request in flight: its response goes to `on_response`, or to `future` as a copy."""

    api_key: int
    version: int
    response_class: type[Message]
    correlation_id: int
    on_response: OnResponse | None
    future: asyncio.Future[Any] | None


class PeerConnection(asyncio.BufferedProtocol):
    """One TCP connection; responses come in the order of the requests.

    `on_lost` is called once, when the connection has ended.
    """

    def __init__(
        self,
        client_id: str,
        on_lost: Callable[[PeerConnection], None] | None = None,
        *,
        response_bytes_max: int = FRAME_BYTES_MAX,
    ) -> None:
        self._client_id = client_id
        self._on_lost = on_lost
        self._buffer = ReceiveBuffer(response_bytes_max)
        self.get_buffer = self._buffer.space  # type: ignore[method-assign]
        self._calls: deque[_Call] = deque()
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._next_correlation_id = 0
        self._steps: Iterator[None] | None = None  # of the response being processed
        self._reading = True
        self.closed = False
        self.responses = 0  # received so far

    # -- transport callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def buffer_updated(self, nbytes: int) -> None:
        self._buffer.end += nbytes
        if self._steps is None:
            self._take_frames()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(disconnected=True)

    # -- requests

    @property
    def is_waiting(self) -> bool:
        """Whether a request is in flight."""
        return bool(self._calls)

    def send(
        self,
        message: Message,
        response_class: type[Message],
        on_response: OnResponse | None,
        *,
        version: int | None = None,
        future: asyncio.Future[Any] | None = None,
    ) -> None:
        """Send a request; `on_response` gets the response, or nothing if the connection ends before it.

        Records of the response are a view of the receive buffer, so that they reach the log without a copy.
        `on_response` may return an iterator: the loop runs other work between two steps, and nothing more is
        read from the connection until the last one.
        """
        if self.closed or self._transport is None:
            return
        if version is None:
            version = API_BY_KEY[message.API_KEY].max_version
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & CORRELATION_ID_MAX
        frame = encode_request(version, correlation_id, self._client_id, message)
        self._calls.append(
            _Call(message.API_KEY, version, response_class, correlation_id, on_response, future)
        )
        self._transport.write(frame)

    def call(
        self, message: Message, version: int, response_class: type[Response]
    ) -> asyncio.Future[Response]:
        """Send a request; the future is the response, which owns its bytes, or PeerLost."""
        if self.closed or self._transport is None:
            raise PeerLost("the connection is closed", disconnected=True)
        future: asyncio.Future[Response] = self._loop.create_future()
        self.send(message, response_class, None, version=version, future=future)
        return future

    def close(self) -> None:
        if not self.closed:
            self._end(disconnected=False)
            if self._transport is not None:
                self._transport.abort()

    # -- responses

    def _take_frames(self) -> None:
        """Process the received responses. One that has steps runs one per iteration of the loop."""
        try:
            while not self.closed:
                if self._steps is not None:
                    if next(self._steps, self) is not self:
                        self._set_reading(False)
                        self._loop.call_soon(self._take_frames)
                        return
                    self._steps = None
                    if self.closed:
                        return  # by the last step
                    self._set_reading(True)
                frame = self._buffer.next_frame()
                if frame is None:
                    self._buffer.make_room()
                    return
                self._steps = self._receive(frame)
        except (BadFrame, DecodeError) as error:
            log.warning("response not understood, connection closed: %s", error)
            self.close()
        except Exception:
            # Nothing would be read from the connection again, and its requests would wait forever.
            log.exception("response not processed, connection closed")
            self.close()

    def _receive(self, frame: memoryview) -> Iterator[None] | None:
        if not self._calls:
            raise DecodeError("a response without a request")
        call = self._calls[0]  # until it is decoded: `close` fails the calls that are left
        # A future's waiter runs after the buffer is read into again: it gets bytes of its own.
        data = frame if call.future is None else bytes(frame)
        correlation_id, pos = read_response_header(call.api_key, call.version, data)
        if correlation_id != call.correlation_id:
            raise DecodeError(f"response {correlation_id} where {call.correlation_id} was expected")
        if call.future is None:
            response, _ = call.response_class.read(call.version, data, pos)
        else:
            response = call.response_class.decode(call.version, data, pos)
        self._calls.popleft()
        self.responses += 1
        if call.future is None:
            assert call.on_response is not None
            return call.on_response(response)
        if not call.future.done():
            call.future.set_result(response)
        return None

    def _set_reading(self, wanted: bool) -> None:
        if wanted != self._reading and self._transport is not None and not self.closed:
            self._reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _end(self, *, disconnected: bool) -> None:
        if self.closed:
            return
        self.closed = True
        self._steps = None
        calls, self._calls = self._calls, deque()
        for call in calls:
            if call.future is not None and not call.future.done():
                error = PeerLost("the connection ended before the response", disconnected=disconnected)
                call.future.set_exception(error)
        if self._on_lost is not None:
            self._on_lost(self)


class Peer:
    """A node at an address: connects on demand and reconnects after a loss.

    `on_lost` is called when a connection has ended that `close` did not end.
    """

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str,
        connect_timeout_ms: int = 2000,
        on_lost: Callable[[], None] | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self._client_id = client_id
        self._connect_timeout_ms = connect_timeout_ms
        self._on_lost = on_lost
        self._connection: PeerConnection | None = None
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
        """The response. Raises PeerLost if there is no connection or no response in time."""
        if version is None:
            version = API_BY_KEY[message.API_KEY].max_version
        connection = self._connection
        if connection is None or connection.closed:
            connection = await self.connect()
        future = connection.call(message, version, response_class)
        try:
            return await asyncio.wait_for(future, timeout_ms / 1000)
        except TimeoutError:
            # A late response must not be taken for the response to another request.
            connection.close()
            raise PeerLost(f"{self} did not answer within {timeout_ms} ms", disconnected=False) from None

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def connect(self) -> PeerConnection:
        """The connection, opened if there is none. Raises PeerLost if that fails."""
        async with self._connecting:
            if self._connection is not None and not self._connection.closed:
                return self._connection
            loop = asyncio.get_running_loop()
            try:
                _, connection = await asyncio.wait_for(
                    loop.create_connection(self._new_connection, self.host, self.port),
                    self._connect_timeout_ms / 1000,
                )
            except TimeoutError as error:
                raise PeerLost(f"{self} cannot be reached in time", disconnected=False) from error
            except OSError as error:
                refused = isinstance(error, ConnectionError)
                raise PeerLost(f"{self} cannot be reached: {error}", disconnected=refused) from error
            self._connection = connection
            return connection

    def _new_connection(self) -> PeerConnection:
        return PeerConnection(self._client_id, self._connection_lost, response_bytes_max=RESPONSE_BYTES_MAX)

    def _connection_lost(self, connection: PeerConnection) -> None:
        if connection is self._connection and self._on_lost is not None:
            self._on_lost()
