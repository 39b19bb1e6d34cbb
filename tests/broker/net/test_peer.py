"""Connections to other nodes: limits, and responses after a close."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from ottla.broker.net.peer import RESPONSE_BYTES_MAX, Peer, PeerConnection, PeerLost
from ottla.protocol.frames import encode_response
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import ApiVersionsResponse

API_VERSIONS, VERSION = 18, 0


class Responder(asyncio.Protocol):
    """Sends its bytes once, after the first request."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(self._data)
        self._data = b""

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(None)


@asynccontextmanager
async def responding_with(data: bytes) -> AsyncIterator[int]:
    """A server for one connection; yields its port."""
    responder = Responder(data)
    server = await asyncio.get_running_loop().create_server(lambda: responder, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.wait_for(responder.closed, 5)


def response_frame(correlation_id: int) -> bytes:
    parts = encode_response(API_VERSIONS, VERSION, correlation_id, ApiVersionsResponse())
    return b"".join(parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "refused"), [(RESPONSE_BYTES_MAX, False), (RESPONSE_BYTES_MAX + 1, True), (2**31 - 1, True)]
)
def test_a_peer_refuses_responses_over_the_limit(size: int, refused: bool) -> None:
    async def scenario() -> None:
        async with responding_with(struct.pack(">i", size)) as port:
            peer = Peer("127.0.0.1", port, "test")
            connection = await peer.connect()
            call = connection.call(ApiVersionsRequest(), VERSION, ApiVersionsResponse)
            if refused:
                with pytest.raises(PeerLost):
                    await asyncio.wait_for(call, 5)
            else:
                done, _ = await asyncio.wait([call], timeout=0.2)
                assert not done and not connection.closed
            peer.close()
            call.exception()

    asyncio.run(scenario())


def test_responses_after_a_step_that_closes_the_connection_are_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    received: list[ApiVersionsResponse] = []

    async def scenario() -> None:
        async with responding_with(response_frame(0) + response_frame(1)) as port:
            lost: asyncio.Future[PeerConnection] = asyncio.get_running_loop().create_future()
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: PeerConnection("test", lost.set_result), "127.0.0.1", port
            )

            def on_response(response: ApiVersionsResponse) -> Iterator[None]:
                received.append(response)
                connection.close()
                yield from ()

            for _ in range(2):
                connection.send(ApiVersionsRequest(), ApiVersionsResponse, on_response, version=VERSION)
            await asyncio.wait_for(lost, 5)
            await asyncio.sleep(0)

    with caplog.at_level(logging.WARNING, "ottla.peer"):
        asyncio.run(scenario())
    assert len(received) == 1
    assert not caplog.records


async def call_and_receive(data: bytes) -> PeerLost:
    """Send two requests to a peer that sends these bytes; return the error of the first."""
    async with responding_with(data) as port:
        peer = Peer("127.0.0.1", port, "test")
        connection = await peer.connect()
        calls = [connection.call(ApiVersionsRequest(), VERSION, ApiVersionsResponse) for _ in range(2)]
        errors = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 5)
        assert all(isinstance(error, PeerLost) for error in errors), errors
        assert connection.closed
        return cast(PeerLost, errors[0])


UNEXPECTED_ID = response_frame(7)
TRUNCATED_BODY = struct.pack(">iih", 6, 0, 0)
TRUNCATED_HEADER = struct.pack(">ih", 2, 0)


@pytest.mark.parametrize("data", [UNEXPECTED_ID, TRUNCATED_BODY, TRUNCATED_HEADER])
def test_a_response_that_cannot_be_decoded_fails_its_call_at_once(data: bytes) -> None:
    error = asyncio.run(call_and_receive(data))
    assert not error.disconnected, "this side has closed the connection; the peer is alive"


@pytest.mark.parametrize("steps_before", [0, 1])
def test_a_failure_while_a_response_is_processed_closes_the_connection(steps_before: int) -> None:
    """Otherwise nothing would be read from it again, and its requests would wait forever."""

    async def scenario() -> None:
        async with responding_with(response_frame(0) + response_frame(1)) as port:
            lost: asyncio.Future[PeerConnection] = asyncio.get_running_loop().create_future()
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: PeerConnection("test", lost.set_result), "127.0.0.1", port
            )

            def on_response(response: ApiVersionsResponse) -> Iterator[None]:
                for _ in range(steps_before):
                    yield
                raise RuntimeError("a defect of the receiver")

            for _ in range(2):
                connection.send(ApiVersionsRequest(), ApiVersionsResponse, on_response, version=VERSION)
            assert await asyncio.wait_for(lost, 5) is connection

    asyncio.run(scenario())
