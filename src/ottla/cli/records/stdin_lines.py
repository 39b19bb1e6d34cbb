"""Reading lines from stdin in a coroutine, without blocking the event loop or waiting for a full buffer."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator

CHUNK_BYTES = 256 * 1024
CHUNKS_AHEAD_MAX = 4


async def stdin_lines() -> AsyncIterator[list[bytes]]:
    """Yield the lines that have arrived, without line ends.

    A thread reads, because event loops handle pipes, terminals and files differently. It is a daemon thread,
    so that Ctrl-C does not wait for the next line.
    """
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue()
    capacity = threading.Semaphore(CHUNKS_AHEAD_MAX)
    descriptor = sys.stdin.fileno()

    def read() -> None:
        try:
            while True:
                capacity.acquire()
                chunk = os.read(descriptor, CHUNK_BYTES)
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)
                if not chunk:
                    return
        except (RuntimeError, OSError):
            return  # the event loop is closed: drop the rest

    threading.Thread(target=read, name="ottla-stdin", daemon=True).start()
    rest = b""
    while chunk := await chunks.get():
        capacity.release()
        *lines, rest = (rest + chunk).split(b"\n")
        yield lines
    if rest:
        yield [rest]
