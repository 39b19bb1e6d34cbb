"""Connections to other nodes: limits."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from ottla.broker.net.peer import RESPONSE_BYTES_MAX, Peer, PeerLost
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import ApiVersionsResponse

VERSION = 0


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
