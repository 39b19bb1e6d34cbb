"""Recording requests of real clients: a proxy in front of a broker, and the corpus file.

The file has a line per frame, `api_key version hex`, without the length field: small, and diffs show what a
new recording changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import defaultdict
from typing import NamedTuple

FRAME_BYTES_MAX = 1500  # larger frames add nothing for the fuzzer
FRAMES_PER_VERSION_MAX = 12
COPY_BYTES = 64 * 1024


class RecordedFrame(NamedTuple):
    api_key: int
    version: int
    data: bytes  # the request without its length field


class Corpus:
    """A few distinct frames of each API and version."""

    def __init__(self) -> None:
        self._frames: dict[tuple[int, int], list[bytes]] = defaultdict(list)

    def add(self, data: bytes) -> None:
        if not 8 <= len(data) <= FRAME_BYTES_MAX:
            return
        api_key, version = struct.unpack_from(">hh", data)
        kept = self._frames[api_key, version]
        # Frames of the same length mostly differ only in the correlation id.
        if len(kept) < FRAMES_PER_VERSION_MAX and len(data) not in map(len, kept):
            kept.append(data)

    def frames(self) -> list[RecordedFrame]:
        return [
            RecordedFrame(*key, data) for key in sorted(self._frames) for data in sorted(self._frames[key])
        ]

    def save(self, path: str) -> None:
        lines = [f"{frame.api_key} {frame.version} {frame.data.hex()}\n" for frame in self.frames()]
        with open(path, "w", encoding="ascii") as out:
            out.writelines(lines)


def load_frames(path: str) -> list[RecordedFrame]:
    with open(path, encoding="ascii") as lines:
        found = []
        for line in lines:
            api_key, version, data = line.split()
            found.append(RecordedFrame(int(api_key), int(version), bytes.fromhex(data)))
    return found


class RecordingProxy:
    """Forwards connections to `upstream` (host:port) and records the requests."""

    def __init__(self, upstream: str, corpus: Corpus) -> None:
        host, _, port = upstream.rpartition(":")
        self._upstream = (host, int(port))
        self._corpus = corpus
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> None:
        self._server = await asyncio.start_server(self._serve, host, port)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        broker_reader, broker_writer = await asyncio.open_connection(*self._upstream)
        copying = asyncio.ensure_future(_copy(broker_reader, writer))
        try:
            await self._record(reader, broker_writer)
        except asyncio.CancelledError:
            pass  # the proxy stops; asyncio's stream callback would log the cancellation as an error
        finally:
            copying.cancel()
            broker_writer.close()
            writer.close()

    async def _record(self, reader: asyncio.StreamReader, broker: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size = await reader.readexactly(4)
                data = await reader.readexactly(struct.unpack(">i", size)[0])
                self._corpus.add(data)
                broker.write(size + data)
                await broker.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(COPY_BYTES):
            writer.write(data)
            await writer.drain()
    writer.close()
