"""One connection to one broker: frames, correlation ids, pipelining, timeouts, version negotiation."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple, TypeVar, cast

from ottla.client.core.frame_receiver import FrameReceiver
from ottla.client.core.negotiation import (
    CORRELATION_ID_MAX,
    NEWEST_API_VERSIONS,
    RESPONSE_BYTES_MAX,
    Negotiated,
    decode_answer,
    versions_request,
)
from ottla.client.errors import (
    ClientError,
    ConnectionFailedError,
    NotKafkaError,
    RequestTimeoutError,
)
from ottla.protocol.api import API_BY_KEY, Api
from ottla.protocol.errors import DecodeError
from ottla.protocol.frames import encode_request
from ottla.protocol.message import Message
from ottla.protocol.messages.api_versions_response import ApiVersionsResponse

Response = TypeVar("Response", bound=Message)


class _Awaited(NamedTuple):
    correlation_id: int
    api: Api
    version: int
    answer: asyncio.Future[Message]


class Connection(Negotiated, asyncio.BufferedProtocol):
    """Speaks Kafka's protocol with one broker; any number of requests may be in flight.

    `await Connection.open(host, port)` connects and agrees on versions. Each request goes out in the newest
    version both sides know. After a time-out or a broken frame the connection is closed: later
    responses could not be matched to requests.
    """

    def __init__(self, host: str, port: int, client_id: str) -> None:
        super().__init__(host, port, client_id)
        self._receiver = FrameReceiver(RESPONSE_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._awaited: deque[_Awaited] = deque()
        self._correlation_id = 0
        self._closed_by: ClientError | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._gone = asyncio.Event()

    @classmethod
    async def open(
        cls, host: str, port: int, *, client_id: str = "ottla", timeout_ms: float = 10_000
    ) -> Connection:
        """Connect and negotiate. Raises ConnectionFailedError, RequestTimeoutError or UnsupportedApiError."""
        connection = cls(host, port, client_id)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await loop.create_connection(lambda: connection, host, port)
                await connection._negotiate(timeout_ms)
        except TimeoutError:
            await connection.close()
            raise RequestTimeoutError(
                f"{connection.address}: no connection within {timeout_ms:g} ms"
            ) from None
        except OSError as error:
            reason = _reason(error)
            raise ConnectionFailedError(
                f"{connection.address}: cannot connect: {reason}; is a broker running there?"
            ) from error
        except BaseException:
            await connection.close()
            raise
        return connection

    @property
    def is_open(self) -> bool:
        return self._closed_by is None and self._transport is not None and not self._transport.is_closing()

    async def request(
        self,
        message: Message,
        response: type[Response],
        *,
        timeout_ms: float = 30_000,
        at_most: int | None = None,
    ) -> Response:
        """Send and wait for the response."""
        assert API_BY_KEY[message.API_KEY].response_class() is response, (
            f"{response} is not the response of {message}"
        )
        version = self.version_for(message.API_KEY, at_most)
        await self.drain()
        return cast(Response, await self._exchange(message, version, timeout_ms))

    async def send_unanswered(self, message: Message, *, at_most: int | None = None) -> None:
        """Send a request without a response: Produce with acks=0."""
        version = self.version_for(message.API_KEY, at_most)
        await self.drain()
        self._write(message, version)

    async def drain(self) -> None:
        """Wait while the broker reads more slowly than the client writes."""
        if not self._writable.is_set():
            await self._writable.wait()

    async def close(self) -> None:
        self._fail(ConnectionFailedError(f"{self.address}: the connection was closed"))
        if self._transport is not None:
            await self._gone.wait()

    async def _negotiate(self, timeout_ms: float) -> None:
        version: int | None = NEWEST_API_VERSIONS
        while version is not None:
            answer = await self._exchange(versions_request(), version, timeout_ms)
            version = self.take_versions(cast(ApiVersionsResponse, answer), version)

    async def _exchange(self, message: Message, version: int, timeout_ms: float) -> Message:
        correlation_id = self._write(message, version)
        api = API_BY_KEY[message.API_KEY]
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._awaited.append(_Awaited(correlation_id, api, version, answer))
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await answer
        except TimeoutError:
            error = RequestTimeoutError(
                f"{self.address}: no response to {api.name} v{version} within {timeout_ms:g} ms"
            )
            self._fail(error)
            raise error from None

    def _write(self, message: Message, version: int) -> int:
        if self._closed_by is not None:
            raise ConnectionFailedError(str(self._closed_by)) from self._closed_by
        assert self._transport is not None, "not connected"
        self._correlation_id = 0 if self._correlation_id == CORRELATION_ID_MAX else self._correlation_id + 1
        self._transport.write(encode_request(version, self._correlation_id, self.client_id, message))
        return self._correlation_id

    def _fail(self, error: ClientError) -> None:
        """Close the connection; all pending requests raise the error."""
        if self._closed_by is not None:
            return
        self._closed_by = error
        if self._transport is not None:
            self._transport.abort()
        while self._awaited:
            answer = self._awaited.popleft().answer
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # a cancelled request must not be logged as never retrieved
        self._writable.set()

    def _take(self, frame: bytes | bytearray) -> None:
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if not self._awaited:
            raise DecodeError(f"response {correlation_id} without a request")
        awaited = self._awaited.popleft()
        if correlation_id != awaited.correlation_id:
            self._awaited.appendleft(awaited)
            raise DecodeError(f"response {correlation_id} where {awaited.correlation_id} was expected")
        try:
            message = decode_answer(awaited.api, awaited.version, frame)
        except DecodeError:
            self._awaited.appendleft(awaited)
            raise
        if not awaited.answer.done():
            awaited.answer.set_result(message)

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiver.memory()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._receiver.received(nbytes):
                self._take(frame)
        except DecodeError as error:
            self._fail(NotKafkaError(f"{self.address}: not a Kafka response: {error}; is it a Kafka broker?"))

    def connection_lost(self, exc: Exception | None) -> None:
        reason = f": {exc}" if exc is not None else ""
        self._fail(ConnectionFailedError(f"{self.address}: the broker closed the connection{reason}"))
        self._gone.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()


def _reason(error: OSError) -> str:
    """The reason that the system gave, without asyncio's list of every address it tried."""
    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return "connection refused"
    return error.strerror or str(error)
