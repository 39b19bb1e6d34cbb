"""Lines from stdin for a coroutine: without blocking its loop, and without waiting for a full buffer."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator

CHUNK_BYTES = 256 * 1024
CHUNKS_AHEAD_MAX = 4


async def stdin_lines() -> AsyncIterator[list[bytes]]:
    """The lines, as many at a time as have arrived, without their line ends.

    A thread reads, because a pipe, a terminal and a file all want different things of an event loop. It is a
    daemon: Ctrl-C must not wait for somebody to press return.
    """
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue()
    room = threading.Semaphore(CHUNKS_AHEAD_MAX)
    descriptor = sys.stdin.fileno()

    def read() -> None:
        try:
            while True:
                room.acquire()
                chunk = os.read(descriptor, CHUNK_BYTES)
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)
                if not chunk:
                    return
        except (RuntimeError, OSError):
            return  # the loop is gone: nobody wants the rest

    threading.Thread(target=read, name="ottla-stdin", daemon=True).start()
    rest = b""
    while chunk := await chunks.get():
        room.release()
        *lines, rest = (rest + chunk).split(b"\n")
        yield lines
    if rest:
        yield [rest]
