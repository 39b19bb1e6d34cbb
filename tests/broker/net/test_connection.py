"""Order, back-pressure and refusals of a connection, over real sockets with a scripted dispatcher."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvloop

from ottla.broker.net.connection import PENDING_MAX
from ottla.broker.net.listener import Limits, Listener
from ottla.broker.net.receive_budget import ReceiveBudget
from ottla.broker.net.request import CloseConnection, DeferredResponse, Request
from ottla.broker.net.sender import SocketSender
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.storage.files import OsFiles
from ottla.storage.log.region import FileRegion
from tests.support.waiting import wait_until_async

Script = Callable[[Request], Any]


class NoFastPath:
    def accept(self, frame: memoryview) -> None:
        return None


class ScriptedDispatcher:
    fast_path = NoFastPath()

    def __init__(self, script: Script) -> None:
        self.script = script
        self.seen: list[int] = []

    def dispatch(self, request: Request, frame: memoryview, pos: int) -> Any:
        self.seen.append(request.correlation_id)
        return self.script(request)


def request_frame(correlation_id: int, api_key: int = 18, version: int = 0, body: bytes = b"") -> bytes:
    head = struct.pack(">hhih", api_key, version, correlation_id, -1)
    return struct.pack(">i", len(head) + len(body)) + head + body


def answer(size: int = 0) -> ApiVersionsResponse:
    return ApiVersionsResponse(api_keys=[ApiVersion(api_key=n % 100) for n in range(size)])


@asynccontextmanager
async def listening(
    script: Script, budget: ReceiveBudget | None = None, **limits: int
) -> AsyncIterator[tuple[Listener, ScriptedDispatcher]]:
    allowed = {
        "frame_bytes_max": 1_000_000,
        "connections_max": 100,
        "connections_per_ip_max": 100,
        "idle_ms_max": 60_000,
        **limits,
    }
    dispatcher = ScriptedDispatcher(script)
    listener = Listener("PLAINTEXT", "127.0.0.1", 0, dispatcher, Limits(**allowed), budget)  # type: ignore[arg-type]
    await listener.bind()
    await listener.serve()
    try:
        yield listener, dispatcher
    finally:
        await listener.stop()


@asynccontextmanager
async def client(listener: Listener) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def next_correlation_id(reader: asyncio.StreamReader) -> int:
    (size,) = struct.unpack(">i", await asyncio.wait_for(reader.readexactly(4), 5))
    body = await asyncio.wait_for(reader.readexactly(size), 5)
    return int(struct.unpack_from(">i", body)[0])


async def closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(1), 5) == b""
    except ConnectionError:
        return True


def run(main: Callable[[], Any]) -> None:
    """Run on uvloop, which the broker normally uses, and on the standard loop."""
    for factory in (uvloop.new_event_loop, asyncio.new_event_loop):
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main())


def test_responses_keep_the_order_of_requests() -> None:
    async def main() -> None:
        futures: dict[int, asyncio.Future[Any]] = {}

        def script(request: Request) -> Any:
            if request.correlation_id % 2:
                return answer()
            futures[request.correlation_id] = asyncio.get_running_loop().create_future()
            return futures[request.correlation_id]

        async with listening(script) as (listener, dispatcher), client(listener) as (reader, writer):
            writer.write(b"".join(request_frame(n) for n in range(6)))
            while len(dispatcher.seen) < 6:
                await asyncio.sleep(0.001)
            for n in (4, 2, 0):  # completed out of order on purpose
                futures[n].set_result(answer())
            assert [await next_correlation_id(reader) for _ in range(6)] == list(range(6))

    run(main)


def test_a_deferred_response_is_built_when_it_is_next() -> None:
    async def main() -> None:
        first: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        made: list[int] = []

        def script(request: Request) -> Any:
            number = request.correlation_id

            def build() -> ApiVersionsResponse:
                made.append(number)
                return answer()

            return first if number == 1 else DeferredResponse(build)

        async with listening(script) as (listener, dispatcher), client(listener) as (reader, writer):
            writer.write(b"".join(request_frame(n) for n in range(4)))
            while len(dispatcher.seen) < 4:
                await asyncio.sleep(0.001)
            assert made == [0], "the others wait for the response before them"
            first.set_result(answer())
            assert [await next_correlation_id(reader) for _ in range(4)] == [0, 1, 2, 3]
            assert made == [0, 2, 3]

    run(main)


def test_a_coroutine_holds_the_next_request_back() -> None:
    async def main() -> None:
        gate = asyncio.Event()

        async def slow() -> ApiVersionsResponse:
            await gate.wait()
            return answer()

        def script(request: Request) -> Any:
            return slow() if request.correlation_id == 0 else answer()

        async with listening(script) as (listener, dispatcher), client(listener) as (reader, writer):
            writer.write(request_frame(0) + request_frame(1))
            await asyncio.sleep(0.05)
            assert dispatcher.seen == [0]
            gate.set()
            assert [await next_correlation_id(reader), await next_correlation_id(reader)] == [0, 1]

    run(main)


def test_too_many_pending_requests_pause_reading() -> None:
    async def main() -> None:
        futures: list[asyncio.Future[Any]] = []

        def script(request: Request) -> Any:
            futures.append(asyncio.get_running_loop().create_future())
            return futures[-1]

        async with listening(script) as (listener, dispatcher), client(listener) as (reader, writer):
            count = PENDING_MAX + 30
            writer.write(b"".join(request_frame(n) for n in range(count)))
            await asyncio.sleep(0.05)
            assert len(dispatcher.seen) == PENDING_MAX
            for n in range(count):
                while len(futures) <= n:
                    await asyncio.sleep(0.001)
                futures[n].set_result(answer())
            assert [await next_correlation_id(reader) for _ in range(count)] == list(range(count))

    run(main)


def test_a_client_that_does_not_read_pauses_only_its_own_requests() -> None:
    async def main() -> None:
        def script(request: Request) -> Any:
            return answer(20_000)  # 120 KB

        async with listening(script) as (listener, dispatcher):
            slow = socket.create_connection(("127.0.0.1", listener.port))
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            frames = b"".join(request_frame(n) for n in range(1000))
            await asyncio.get_running_loop().run_in_executor(None, slow.sendall, frames)
            await asyncio.sleep(0.1)
            handled = len(dispatcher.seen)
            assert handled < 200  # as many as fit the kernel's buffers, not a thousand in memory
            async with client(listener) as (reader, writer):
                writer.write(request_frame(7777))
                assert await next_correlation_id(reader) == 7777
            slow.close()

    run(main)


def test_file_regions_and_bytes_arrive_in_order(tmp_path: Any) -> None:
    async def main() -> None:
        content = bytes(range(256)) * 4096  # 1 MiB
        path = tmp_path / "segment"
        path.write_bytes(content)
        file = OsFiles().open(str(path))

        def script(request: Request) -> Any:
            if request.correlation_id % 2:
                return answer()
            parts = [(10, 1000), (0, len(content)), (100_000, 200_000), (5, 3)]
            return FetchResponse(
                responses=[
                    FetchableTopicResponse(
                        topic="t",
                        partitions=[
                            PartitionData(partition_index=n, records=FileRegion(file, position, size))
                            for n, (position, size) in enumerate(parts)
                        ],
                    )
                ]
            )

        async with listening(script) as (listener, _), client(listener) as (reader, writer):
            frames = [request_frame(n, 18 if n % 2 else 1, 0 if n % 2 else 4) for n in range(20)]
            writer.write(b"".join(frames))
            for n in range(20):
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                body = await asyncio.wait_for(reader.readexactly(size), 10)
                assert struct.unpack_from(">i", body)[0] == n
                if n % 2 == 0:
                    decoded = FetchResponse.decode(4, body, 4)
                    found = [bytes(p.records) for p in decoded.responses[0].partitions]
                    assert found == [
                        content[10:1010], content, content[100_000:300_000], content[5:8]
                    ]  # fmt: skip

    run(main)


@pytest.mark.parametrize(
    "garbage",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 1_000_001),
        struct.pack(">i", 3) + b"abc",  # shorter than any header
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        request_frame(1, api_key=999),
    ],
)
def test_an_invalid_frame_closes_only_its_connection(
    garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        def script(request: Request) -> Any:
            if request.api_key == 999:
                raise CloseConnection("no such API")
            return answer()

        async with listening(script) as (listener, _), client(listener) as (good_reader, good_writer):
            async with client(listener) as (reader, writer):
                writer.write(garbage)
                assert await closed(reader)
            good_writer.write(request_frame(1))
            assert await next_correlation_id(good_reader) == 1

    run(main)
    assert any("connection closed" in record.getMessage() for record in caplog.records)


def test_a_failing_handler_closes_one_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async def broken() -> Any:
            raise RuntimeError("broken on purpose")

        def script(request: Request) -> Any:
            if request.correlation_id == 1:
                raise RuntimeError("broken on purpose")
            return broken() if request.correlation_id == 2 else answer()

        async with listening(script) as (listener, _):
            for correlation_id in (1, 2):
                async with client(listener) as (reader, writer):
                    writer.write(request_frame(correlation_id))
                    assert await closed(reader)
            async with client(listener) as (reader, writer):
                writer.write(request_frame(3))
                assert await next_correlation_id(reader) == 3
            assert not listener.connections or len(listener.connections) == 1

    run(main)
    assert sum("handler failed" in record.getMessage() for record in caplog.records) == 4


def test_a_long_poll_is_cancelled_when_the_client_leaves() -> None:
    async def main() -> None:
        futures: list[asyncio.Future[Any]] = []

        def script(request: Request) -> Any:
            futures.append(asyncio.get_running_loop().create_future())
            return futures[-1]

        async with listening(script) as (listener, _):
            async with client(listener) as (_, writer):
                writer.write(request_frame(1))
                while not futures:
                    await asyncio.sleep(0.001)
            for _ in range(500):
                if futures[0].cancelled():
                    break
                await asyncio.sleep(0.01)
            assert futures[0].cancelled()
            assert not listener.connections

    run(main)


def test_limits_on_connections() -> None:
    async def main() -> None:
        async with listening(lambda request: answer(), connections_per_ip_max=2) as (listener, _):
            async with client(listener) as (r1, w1), client(listener) as (r2, w2):
                w1.write(request_frame(1))
                w2.write(request_frame(2))
                assert (await next_correlation_id(r1), await next_correlation_id(r2)) == (1, 2)
                async with client(listener) as (r3, _):
                    assert await closed(r3)
            while listener.connections:
                await asyncio.sleep(0.001)
            async with client(listener) as (r4, w4):
                w4.write(request_frame(4))
                assert await next_correlation_id(r4) == 4

    run(main)


def test_idle_connections_are_closed() -> None:
    async def main() -> None:
        async with (
            listening(lambda request: answer(), idle_ms_max=100) as (listener, _),
            client(listener) as (reader, _),
        ):
            assert await closed(reader)
            assert not listener.connections

    run(main)


def test_error_codes_are_plain_integers_on_the_wire() -> None:
    assert ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST).encode(0)[:2] == b"\x00\x2a"


def test_large_requests_share_a_budget_and_small_ones_do_not_wait() -> None:
    async def main() -> None:
        budget = ReceiveBudget(1_500_000)
        large = [request_frame(n, body=bytes(900_000)) for n in range(3)]
        async with (
            listening(lambda request: answer(), budget) as (listener, dispatcher),
            client(listener) as (r0, w0),
            client(listener) as (r1, w1),
            client(listener) as (r2, w2),
        ):
            w0.write(large[0][:-1])
            await wait_until_async(lambda: budget.free_bytes == 1_500_000 - len(large[0]))
            w1.write(large[1])
            w2.write(request_frame(77))
            assert await next_correlation_id(r2) == 77
            await asyncio.sleep(0.05)
            assert dispatcher.seen == [77]
            w0.write(large[0][-1:])
            assert [await next_correlation_id(r0), await next_correlation_id(r1)] == [0, 1]
            # A client that disconnects in the middle returns its share.
            w0.write(large[2][:-1])
            await wait_until_async(lambda: budget.free_bytes < 1_500_000 - len(large[0]) + 100)
            w0.close()
            w1.write(large[1])
            assert await next_correlation_id(r1) == 1
        await wait_until_async(lambda: budget.free_bytes == 1_500_000)

    run(main)


def test_socket_buffers_have_the_configured_size() -> None:
    async def main() -> None:
        limits = {"receive_buffer_bytes": 20_000, "send_buffer_bytes": 30_000}
        async with (
            listening(lambda request: answer(), **limits) as (listener, _),
            client(listener) as (reader, writer),
        ):
            writer.write(request_frame(1))
            assert await next_correlation_id(reader) == 1
            (connection,) = listener.connections
            sender = connection._sender
            assert isinstance(sender, SocketSender)
            # The kernel doubles the requested size, for its own bookkeeping.
            assert sender._socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 60_000
            assert sender._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 40_000

    run(main)
