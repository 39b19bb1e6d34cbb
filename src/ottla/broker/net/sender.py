"""Senders: response parts leave a connection in order, file regions by sendfile.

A part is bytes or a storage FileRegion. `SocketSender` writes to a duplicate of the transport's socket,
because uvloop has no sendfile and the transport's own buffer would break the order of bytes and regions.
`TransportSender` does the same through the transport alone (TLS, simulated networks). Both hold at most what
one pass of the connection produced: while `busy`, the connection handles no further request.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from ottla.storage.errors import StorageError
from ottla.storage.log.region import FileRegion

Part = Any  # bytes-like or FileRegion

SENDFILE_MIN_BYTES = 64 * 1024  # below this one pread and a gathered send are cheaper than a sendfile
SENDFILE_MAX_BYTES = 1024 * 1024
PASS_MAX_BYTES = 4 * 1024 * 1024  # per pass, so that other connections are served
JOIN_MAX_BYTES = 16 * 1024  # up to this size one copy is cheaper than a gathered send
GATHER_MAX_PARTS = 512  # below the kernel's IOV_MAX of 1024
OS_DEFAULT = -1
_WOULD_BLOCK = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EINTR)


class SocketSender:
    """Sends parts on a non-blocking socket of its own and waits for writability when it is full."""

    __slots__ = (
        "_closed",
        "_loop",
        "_on_drained",
        "_on_error",
        "_queue",
        "_socket",
        "busy",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fileno: int,
        on_drained: Callable[[], None],
        on_error: Callable[[OSError], None],
        buffer_bytes: int = OS_DEFAULT,
    ) -> None:
        """A small `buffer_bytes` keeps what is sent in the processor's cache until it is received."""
        self._loop = loop
        self._socket = socket.socket(fileno=os.dup(fileno))
        self._socket.setblocking(False)
        if buffer_bytes != OS_DEFAULT:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        self._queue: deque[Part] = deque()
        self.busy = False  # the socket is full
        self._closed = False
        self._on_drained = on_drained
        self._on_error = on_error

    def send(self, parts: list[Part]) -> None:
        """Queue the parts and send as much as the socket takes now."""
        if self._closed:
            return
        if not self.busy and sum(map(len, parts)) <= JOIN_MAX_BYTES:
            # The common case: one small response and an empty queue.
            try:
                data = parts[0] if len(parts) == 1 and type(parts[0]) is bytes else _joined(parts)
                sent = self._socket.send(data)
            except BlockingIOError:
                sent = 0
            except StorageError as error:
                self._fail(_lost(error))
                return
            except OSError as error:
                self._fail(error)
                return
            if sent == len(data):
                return
            parts = [memoryview(data)[sent:]]
        self._queue.extend(parts)
        if not self.busy:
            self._pump()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._queue.clear()
        if self.busy:
            self.busy = False
            self._loop.remove_writer(self._socket.fileno())
        self._socket.close()

    def _pump(self) -> None:
        """Send until the queue is empty, the socket is full or the limit of one pass is reached."""
        queue = self._queue
        pass_bytes = 0
        try:
            while queue:
                if pass_bytes >= PASS_MAX_BYTES:
                    self._wait()
                    return
                head = queue[0]
                if isinstance(head, FileRegion) and len(head) >= SENDFILE_MIN_BYTES:
                    offered, sent = self._send_region(head)
                else:
                    offered, sent = self._send_gathered()
                pass_bytes += sent
                if sent < offered:  # the socket is full: another call would only return EAGAIN
                    self._wait()
                    return
        except BlockingIOError:
            self._wait()
            return
        except OSError as error:
            if error.errno in _WOULD_BLOCK:
                self._wait()
            else:
                self._fail(error)
            return
        except StorageError as error:
            self._fail(_lost(error))
            return
        if self.busy:
            self.busy = False
            self._loop.remove_writer(self._socket.fileno())
            self._on_drained()

    def _send_region(self, region: FileRegion) -> tuple[int, int]:
        """Return how many bytes were offered to the socket, and how many it accepted."""
        count = min(len(region), SENDFILE_MAX_BYTES)
        sent = region.sendfile(self._socket.fileno(), count)
        if sent == len(region):
            self._queue.popleft()
        else:
            self._queue[0] = region.after(sent)
        return count, sent

    def _send_gathered(self) -> tuple[int, int]:
        """Send the small parts at the head of the queue with one sendmsg; returns the same counts."""
        queue = self._queue
        gathered: list[Any] = []
        more = False
        for index in range(min(len(queue), GATHER_MAX_PARTS)):
            part = queue[index]
            if isinstance(part, FileRegion):
                if len(part) >= SENDFILE_MIN_BYTES:
                    more = True
                    break
                # Replaced, so that a partly sent part is plain memory.
                part = queue[index] = part.read()
            gathered.append(part)
        flags = socket.MSG_MORE if more else 0
        sent = self._socket.sendmsg(gathered, (), flags)
        rest = sent
        for part in gathered:
            if rest < len(part):
                queue[0] = memoryview(part)[rest:]
                break
            rest -= len(part)
            queue.popleft()
        return sum(map(len, gathered)), sent

    def _wait(self) -> None:
        if not self.busy:
            self.busy = True
            self._loop.add_writer(self._socket.fileno(), self._pump)

    def _fail(self, error: OSError) -> None:
        self.close()
        self._on_error(error)


class TransportSender:
    """Sends parts through the transport and reads regions into memory piece by piece."""

    __slots__ = ("_closed", "_on_drained", "_queue", "_transport", "busy")

    def __init__(self, transport: asyncio.WriteTransport, on_drained: Callable[[], None]) -> None:
        self._transport = transport
        self._queue: deque[Part] = deque()
        self.busy = False
        self._closed = False
        self._on_drained = on_drained

    def send(self, parts: list[Part]) -> None:
        self._queue.extend(parts)
        self._pump()

    def pause(self) -> None:
        self.busy = True

    def resume(self) -> None:
        self.busy = False
        self._pump()
        if not self.busy and not self._closed:
            self._on_drained()

    def close(self) -> None:
        self._closed = True
        self._queue.clear()

    def _pump(self) -> None:
        queue = self._queue
        while queue and not self.busy and not self._closed:
            part = queue.popleft()
            if isinstance(part, FileRegion):
                if len(part) > SENDFILE_MIN_BYTES:
                    queue.appendleft(part.after(SENDFILE_MIN_BYTES))
                    part = part.first(SENDFILE_MIN_BYTES)
                try:
                    part = part.read()
                except StorageError:  # the announced bytes cannot be sent: close the connection
                    self.close()
                    self._transport.abort()
                    return
            self._transport.write(part)


def _joined(parts: list[Part]) -> bytes:
    return b"".join([part.read() if isinstance(part, FileRegion) else part for part in parts])


def _lost(error: StorageError) -> OSError:
    """The file was removed or truncated while a slow client read it, or the disk failed. The announced bytes
    cannot be sent: the connection is closed, and the client reconnects and retries."""
    return OSError(errno.EIO, str(error))
