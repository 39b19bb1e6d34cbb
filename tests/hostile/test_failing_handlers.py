"""A handler that fails, or returns an invalid response, closes only its own connection."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.broker.net.listener import Limits, Listener
from ottla.broker.net.request import Request
from ottla.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse

BROKEN = ApiVersionsResponse(api_keys=[ApiVersion(api_key=1 << 40)])


class NoFastPath:
    """A fast path that accepts no request."""

    def accept(self, frame: memoryview) -> None:
        return None


class OneAnswer:
    """A dispatcher that returns the result of `script` for correlation id 0 and valid responses otherwise."""

    fast_path = NoFastPath()

    def __init__(self, script: Callable[[], Any]) -> None:
        self._script = script

    def dispatch(self, request: Request, frame: memoryview, pos: int) -> Any:
        return self._script() if request.correlation_id == 0 else ApiVersionsResponse()


def fail() -> Any:
    raise RuntimeError("a bug")


async def fail_later() -> Any:
    raise RuntimeError("a bug")


async def broken_later() -> Any:
    return BROKEN


def broken_future() -> Any:
    future = asyncio.get_running_loop().create_future()
    future.set_result(BROKEN)
    return future


def request_frame(correlation_id: int) -> bytes:
    return struct.pack(">ihhih", 10, 18, 0, correlation_id, -1)


async def answer_to(reader: asyncio.StreamReader) -> int | None:
    """Return the correlation id of the next response, or None if the connection is closed."""
    try:
        (size,) = struct.unpack(">i", await asyncio.wait_for(reader.readexactly(4), 5))
        return int(struct.unpack_from(">i", await reader.readexactly(size))[0])
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


async def with_listener(script: Callable[[], Any], use: Callable[[Listener], Awaitable[None]]) -> None:
    limits = Limits(frame_bytes_max=1000, connections_max=9, connections_per_ip_max=9, idle_ms_max=60_000)
    listener = Listener("PLAINTEXT", "127.0.0.1", 0, OneAnswer(script), limits)  # type: ignore[arg-type]
    await listener.bind()
    await listener.serve()
    try:
        await use(listener)
    finally:
        await listener.stop()


@pytest.mark.parametrize(
    "script",
    [fail, fail_later, lambda: BROKEN, broken_later, broken_future],
    ids=lambda script: script.__name__,
)
def test_a_failing_handler_closes_only_its_connection(
    script: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    troubles: list[dict[str, Any]] = []

    async def main(listener: Listener) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", listener.port)
        try:
            writer.write(request_frame(7) + request_frame(0) + request_frame(8))
            assert await answer_to(reader) == 7
            assert await answer_to(reader) is None
            other_writer.write(request_frame(5))
            assert await answer_to(other_reader) == 5
        finally:
            for each in (writer, other_writer):
                each.close()
                with contextlib.suppress(ConnectionError):
                    await each.wait_closed()

    with caplog.at_level(logging.ERROR, "ottla.connection"):
        asyncio.run(with_listener(script, main))
    assert not troubles
    assert "handler failed" in caplog.text
