"""A follower's connection to a leader: requests out, answers read where they arrived.

An answer is handed over as a view of the receive buffer, so that records go from the socket to the log
without a copy in between. Who takes an answer may do so in steps: it returns an iterator, and the loop gets
its turn between two steps; nothing else is read from the connection meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, cast

from ottla.broker.net.receive_buffer import BadFrame, ReceiveBuffer
from ottla.protocol.api import API_BY_KEY
from ottla.protocol.errors import DecodeError
from ottla.protocol.frames import encode_request, read_response_header
from ottla.protocol.message import Message

log = logging.getLogger("ottla.replicas")

FRAME_BYTES_MAX = 2**31 - 1
CORRELATION_MAX = 2**31 - 1

Take = Callable[[Any], Iterator[None] | None]


class _Call:
    __slots__ = ("api_key", "correlation_id", "response_class", "take", "version")

    def __init__(
        self, api_key: int, version: int, response_class: type[Message], correlation_id: int, take: Take
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.response_class = response_class
        self.correlation_id = correlation_id
        self.take = take


class ReplicaLink(asyncio.BufferedProtocol):
    """Answers come in the order of the requests; `on_lost` is called once, when the connection has ended."""

    def __init__(self, client_id: str, on_lost: Callable[[ReplicaLink], None]) -> None:
        self._client_id = client_id
        self._on_lost = on_lost
        self._buffer = ReceiveBuffer(FRAME_BYTES_MAX)
        self._calls: deque[_Call] = deque()
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._next_correlation_id = 0
        self._steps: Iterator[None] | None = None  # of the answer that is being taken
        self._reading = True
        self.closed = False
        self.answers = 0

    # -- transport callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.space()

    def buffer_updated(self, nbytes: int) -> None:
        self._buffer.received(nbytes)
        if self._steps is None:
            self._take_frames()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    # -- public

    @property
    def is_waiting(self) -> bool:
        return bool(self._calls)

    def call(self, message: Message, response_class: type[Message], take: Take) -> None:
        """Send a request; `take` gets the answer, or nothing if the connection ends before."""
        if self.closed or self._transport is None:
            return
        version = API_BY_KEY[message.API_KEY].max_version
        call = _Call(message.API_KEY, version, response_class, self._next_correlation_id, take)
        self._next_correlation_id = (self._next_correlation_id + 1) & CORRELATION_MAX
        self._calls.append(call)
        self._transport.write(encode_request(version, call.correlation_id, self._client_id, message))

    def close(self) -> None:
        if not self.closed:
            self._end()
            if self._transport is not None:
                self._transport.abort()

    # -- inside

    def _take_frames(self) -> None:
        try:
            while not self.closed and (frame := self._buffer.next_frame()) is not None:
                self._steps = self._take(frame)
                self._step()
                if self._steps is not None:
                    self._read_or_rest(False)
                    return
            self._buffer.make_room()
        except (BadFrame, DecodeError) as error:
            log.warning("answer of a leader not understood, connection closed: %s", error)
            self.close()

    def _take(self, frame: memoryview) -> Iterator[None] | None:
        if not self._calls:
            raise DecodeError("an answer that nobody asked for")
        call = self._calls.popleft()
        correlation_id, pos = read_response_header(call.api_key, call.version, frame)
        if correlation_id != call.correlation_id:
            raise DecodeError(f"answer {correlation_id} where {call.correlation_id} was due")
        self.answers += 1
        response, _ = call.response_class.read(call.version, frame, pos)
        return call.take(response)

    def _step(self) -> None:
        """One step of the answer under way; the next one in another turn of the loop."""
        if self._steps is None or self.closed:
            return
        try:
            next(self._steps)
        except StopIteration:
            self._steps = None
            self._read_or_rest(True)
            return
        self._loop.call_soon(self._next_step)

    def _next_step(self) -> None:
        self._step()
        if self._steps is None and not self.closed:
            self._take_frames()

    def _read_or_rest(self, wanted: bool) -> None:
        if wanted != self._reading and self._transport is not None and not self.closed:
            self._reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _end(self) -> None:
        if not self.closed:
            self.closed = True
            self._calls.clear()
            self._steps = None
            self._on_lost(self)
