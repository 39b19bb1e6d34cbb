"""One client connection: frames in, requests handled in order, responses out in the same order.

Rules:
- The synchronous part of a handler runs when its request is next. A handler that returns a Future (Produce)
  or a Promise (Fetch) lets the following requests start; a coroutine (admin requests) holds them back.
- Responses leave in request order, whichever finishes first.
- While the client does not read its responses, or too many are pending, no further request is taken from the
  buffer and the socket is not read: memory is bounded and TCP slows the client down.
- A frame that cannot be decoded closes the connection, with a log line; other connections are not affected.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, cast

from ottla.broker.background import result_of
from ottla.broker.net.promise import Promise
from ottla.broker.net.receive_budget import ReceiveBudget
from ottla.broker.net.receive_buffer import BadFrame, ReceiveBuffer
from ottla.broker.net.request import CloseConnection, DeferredResponse, Dispatcher, FastRequest, Request
from ottla.broker.net.sender import OS_DEFAULT, Part, SocketSender, TransportSender
from ottla.protocol.errors import DecodeError
from ottla.protocol.frames import encode_response, read_request_header
from ottla.protocol.message import Message
from ottla.storage.log.region import FileRegion

log = logging.getLogger("ottla.connection")

GROUP_MAX = 64  # produce requests to one partition that share one write
PENDING_MAX = 64  # unanswered requests per connection before reading pauses
OUTBOX_MAX_BYTES = 64 * 1024  # small responses are gathered up to this size


class ConnectionOwner(Protocol):
    """The listener, as its connections use it."""

    @property
    def name(self) -> str: ...

    @property
    def is_controller(self) -> bool: ...

    @property
    def budget(self) -> ReceiveBudget: ...

    def admit(self, connection: Connection) -> str | None:
        """Count a new connection, or return the reason to refuse it."""

    def gone(self, connection: Connection) -> None: ...


class _Pending:
    """A response that is not ready, or waits for an earlier one."""

    __slots__ = ("deferred", "future", "parts", "request")

    def __init__(
        self,
        request: Request | None,
        parts: list[Part] | None,
        future: asyncio.Future[Any] | Promise[Any] | None = None,
        deferred: DeferredResponse | None = None,
    ) -> None:
        self.request = request
        self.parts = parts
        self.future = future
        self.deferred = deferred


class Connection(asyncio.BufferedProtocol):
    __slots__ = (
        "_buffer",
        "_dispatcher",
        "_exclusive",
        "_fast_path",
        "_group",
        "_loop",
        "_outbox",
        "_outbox_bytes",
        "_outbox_plain",
        "_pending",
        "_processing",
        "_reading",
        "_send_buffer_bytes",
        "_sender",
        "_starved",
        "_transport",
        "client_software",
        "closed",
        "get_buffer",
        "last_active",
        "listener",
        "on_close",
        "peer",
    )

    def __init__(
        self,
        listener: ConnectionOwner,
        dispatcher: Dispatcher,
        frame_bytes_max: int,
        send_buffer_bytes: int = OS_DEFAULT,
    ) -> None:
        self.listener = listener
        self.peer = "?"
        self.client_software = ""
        self.on_close: Callable[[], None] | None = None
        self.last_active = 0.0
        self.closed = False
        self._dispatcher = dispatcher
        self._fast_path = dispatcher.fast_path
        self._loop = asyncio.get_running_loop()
        self._buffer = ReceiveBuffer(frame_bytes_max, listener.budget)
        self.get_buffer = self._buffer.space  # type: ignore[method-assign]
        self._transport: asyncio.Transport | None = None
        self._sender: SocketSender | TransportSender
        self._group: list[FastRequest] = []  # produce requests to one partition, appended together
        self._pending: deque[_Pending] = deque()
        self._outbox: list[Part] = []
        self._outbox_bytes = 0
        self._outbox_plain = True  # bytes only, no file regions
        self._reading = True
        self._exclusive = False  # a coroutine handler runs: the next request waits
        self._processing = False
        self._send_buffer_bytes = send_buffer_bytes
        self._starved = False  # a large frame waits for memory

    # -- transport callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's transports do not derive from it
        self._transport = transport
        peername = transport.get_extra_info("peername")
        self.peer = f"{peername[0]}:{peername[1]}" if peername else "?"
        self.last_active = self._loop.time()
        sock = transport.get_extra_info("socket")
        if sock is not None and transport.get_extra_info("sslcontext") is None:
            self._sender = SocketSender(
                self._loop, sock.fileno(), self._process, self._send_failed, self._send_buffer_bytes
            )
        else:
            self._sender = TransportSender(transport, self._process)
        refusal = self.listener.admit(self)
        if refusal:
            log.warning("connection refused: %s peer=%s", refusal, self.peer)
            self.close()

    def buffer_updated(self, nbytes: int) -> None:
        self._buffer.end += nbytes
        self.last_active = self._loop.time()
        self._process()

    def eof_received(self) -> bool:
        return False  # the transport closes itself

    def pause_writing(self) -> None:
        if isinstance(self._sender, TransportSender):
            self._sender.pause()

    def resume_writing(self) -> None:
        if isinstance(self._sender, TransportSender):
            self._sender.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self._release()
        if exc is not None and not isinstance(exc, ConnectionError):
            log.info("connection lost: %s peer=%s", exc, self.peer)

    # -- public

    def shrink(self) -> None:
        self._buffer.shrink()

    def close(self) -> None:
        """Close at once; responses that the kernel has accepted still arrive."""
        self._release()
        if self._transport is not None:
            self._transport.close()

    # -- requests

    def _process(self) -> None:
        """Handle the buffered requests in order until one has to wait."""
        if self._processing or self.closed:
            return
        self._processing = True
        try:
            self._take_frames()
        except BadFrame as error:
            self._append_group()
            self._close_because(str(error))
        except Exception:
            self._fail()
        finally:
            self._processing = False
        if not self.closed:
            if self._outbox:
                self._flush_outbox()
            if self._reading == self._is_held():
                self._pause_or_resume_reading()

    def _take_frames(self) -> None:
        next_frame, accept = self._buffer.next_frame, self._fast_path.accept
        while not self._is_held():
            frame = next_frame()
            if frame is None:
                if self._group:
                    self._append_group()
                if not self._buffer.make_room():
                    self._wait_for_memory()
                return
            request = accept(frame)
            group = self._group
            if request is None:
                if group:
                    self._append_group()
                self._handle(frame)
            elif group and (group[0].partition is not request.partition or len(group) >= GROUP_MAX):
                self._append_group()
                self._group.append(request)
            else:
                group.append(request)
        self._append_group()

    def _wait_for_memory(self) -> None:
        """Stop reading until the budget has memory for the large frame that has begun."""
        self._starved = True
        self.listener.budget.wait(self._memory_available)

    def _memory_available(self) -> None:
        if not self.closed and self._starved:
            self._starved = False
            if not self._buffer.make_room():
                self._wait_for_memory()
            if self._reading == self._is_held():
                self._pause_or_resume_reading()

    def _append_group(self) -> None:
        """Append the produce requests that were grouped."""
        while self._group:
            group, self._group = self._group, []
            responses = self._fast_path.append(group)
            for response in responses:
                if isinstance(response, asyncio.Future):
                    self._pending.append(_Pending(None, None, response))
                    response.add_done_callback(self._response_ready)
                elif self._pending:
                    self._pending.append(_Pending(None, [response]))
                else:
                    self._outbox.append(response)
                    self._outbox_bytes += len(response)
            if len(responses) < len(group):
                self._handle(group[len(responses)].frame)
                self._group = group[len(responses) + 1 :]
        if self._outbox_bytes >= OUTBOX_MAX_BYTES:
            self._flush_outbox()

    def _is_held(self) -> bool:
        """Whether the next request must wait."""
        waiting = self._exclusive or self._starved or self._sender.busy
        return self.closed or waiting or len(self._pending) >= PENDING_MAX

    def _pause_or_resume_reading(self) -> None:
        """Read the socket only while requests are being taken from the buffer."""
        if self._transport is not None:
            self._reading = not self._reading
            if self._reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _handle(self, frame: memoryview) -> None:
        """Decode one request, give it to its handler, and send or queue the response."""
        if self.closed:
            return
        try:
            head = read_request_header(frame)
            request = Request(self, head.api_key, head.api_version, head.correlation_id, head.client_id)
            response = self._dispatcher.dispatch(request, frame, head.body_pos)
            if response is None:
                return  # acks=0
            if isinstance(response, DeferredResponse):
                if self._pending:
                    self._pending.append(_Pending(request, None, deferred=response))
                    return
                response = response.build()
            if isinstance(response, Message):
                parts = encode_response(request.api_key, request.version, request.correlation_id, response)
                if self._pending:
                    self._pending.append(_Pending(None, parts))
                    return
                self._put(parts)
                if self._outbox_bytes >= OUTBOX_MAX_BYTES:
                    self._flush_outbox()
                return
            if not isinstance(response, asyncio.Future | Promise):
                assert asyncio.iscoroutine(response), response
                self._exclusive = True
                response = result_of(response)
            self._pending.append(_Pending(request, None, response))
            response.add_done_callback(self._response_ready)
        except DecodeError as error:
            self._close_because(f"request not understood: {error}")
        except CloseConnection as error:
            self._close_because(str(error))
        except Exception:
            self._fail()

    def _response_ready(self, future: asyncio.Future[Any] | Promise[Any]) -> None:
        """Move every finished response at the head of the queue to the outbox, and continue."""
        if isinstance(future, asyncio.Task):
            self._exclusive = False
        if self.closed:
            if not future.cancelled():
                future.exception()  # retrieved: the client has left
            return
        pending = self._pending
        while pending:
            head = pending[0]
            if head.future is not None and not head.future.done():
                break
            parts = head.parts or self._result_parts(head)
            if parts is None:
                break  # the connection is closed
            pending.popleft()
            self._put(parts)
        if not self._reading:
            self._process()
        elif self._outbox and not self._processing:
            # While the socket is being read, no request is held back.
            self._flush_outbox()
            if self._is_held():
                self._pause_or_resume_reading()

    def _result_parts(self, pending: _Pending) -> list[Part] | None:
        """The encoded result of a finished future; None after closing the connection on a failure."""
        try:
            if pending.request is None:  # the future of a whole frame
                assert pending.future is not None
                return [pending.future.result()]
            if pending.deferred is not None:
                response = pending.deferred.build()
            else:
                assert pending.future is not None
                response = pending.future.result()
            request = pending.request
            return encode_response(request.api_key, request.version, request.correlation_id, response)
        except asyncio.CancelledError:
            self.close()
        except CloseConnection as error:
            self._close_because(str(error))
        except DecodeError as error:
            self._close_because(f"request not understood: {error}")
        except Exception:
            self._fail()
        return None

    # -- responses

    def _put(self, parts: list[Part]) -> None:
        self._outbox += parts
        for part in parts:
            if type(part) is bytes:
                self._outbox_bytes += len(part)
            else:
                self._outbox_bytes += part.nbytes if type(part) is FileRegion else len(part)
                self._outbox_plain = False

    def _flush_outbox(self) -> None:
        outbox = self._outbox
        if outbox:
            self._outbox = []
            self._outbox_bytes = 0
            if self._outbox_plain and len(outbox) > 1:
                outbox = [b"".join(outbox)]
            self._outbox_plain = True
            self._sender.send(outbox)

    def _send_failed(self, error: OSError) -> None:
        if not isinstance(error, ConnectionError):
            log.warning("send failed: %s peer=%s", error, self.peer)
        self.close()

    def _close_because(self, reason: str) -> None:
        log.warning("connection closed: %s peer=%s", reason, self.peer)
        self._flush_outbox()  # earlier requests have their responses
        self.close()

    def _fail(self) -> None:
        """Close the connection after a defect of the broker: called in an exception handler."""
        log.exception("handler failed, connection closed: peer=%s", self.peer)
        self._flush_outbox()
        self.close()

    def _release(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._buffer.release()
        self._sender.close()
        self.listener.gone(self)
        if self.on_close is not None:
            self.on_close()
        for pending in self._pending:
            # Cancel long polls; a coroutine may be changing state and continues.
            if pending.future is not None and not isinstance(pending.future, asyncio.Task):
                pending.future.cancel()
        self._pending.clear()
