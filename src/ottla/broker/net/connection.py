"""One client connection: frames in, requests handled in order, responses out in the same order.

Rules:
- The synchronous part of every handler runs when its request is next in line. A handler that answers with a
  Future (Produce) or a Promise (Fetch) lets the following requests start meanwhile; a coroutine (admin work)
  holds them back.
- Responses leave in request order whatever finishes first.
- While the peer does not read its responses, or too many are pending, no further request is taken from the
  buffer and the socket is not read: memory is bounded and TCP tells the peer.
- A frame that cannot be understood ends the connection, with a log line; others are untouched.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from ottla.broker.api.produce_lane import Taken
from ottla.broker.net.promise import Promise
from ottla.broker.net.receive_buffer import BadFrame, ReceiveBuffer
from ottla.broker.net.sender import OS_DEFAULT, Part, SocketSender, TransportSender
from ottla.protocol.errors import DecodeError
from ottla.protocol.frames import encode_response, read_request_header
from ottla.protocol.message import Message

if TYPE_CHECKING:
    from ottla.broker.api.dispatcher import Dispatcher
    from ottla.broker.net.listener import Listener

log = logging.getLogger("ottla.connection")

GROUP_MAX = 64  # produce requests that share one write
PENDING_MAX = 64  # unanswered requests per connection before its socket rests
OUTBOX_MAX_BYTES = 64 * 1024  # small responses of one pass are gathered up to this


class CloseConnection(Exception):
    """Raised by a handler to end the connection: the protocol has no better answer (acks=0 errors)."""


class Late:
    """An answer that is made when it is its turn to be sent, not when its request is read.

    Requests behind a long poll are read at once; what is as true as the moment it is told waits.
    """

    __slots__ = ("build",)

    def __init__(self, build: Callable[[], Message]) -> None:
        self.build = build


class Request:
    """What a handler knows beside the message: who asks, in which version, on which listener."""

    __slots__ = ("api_key", "client_id", "connection", "correlation_id", "version")

    def __init__(
        self, connection: Connection, api_key: int, version: int, correlation_id: int, client_id: str | None
    ) -> None:
        self.connection = connection
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id

    @property
    def listener(self) -> Listener:
        return self.connection.listener

    @property
    def on_controller_listener(self) -> bool:
        return self.connection.listener.is_controller


class _Pending:
    """A response that is not there yet, or stands behind one that is not."""

    __slots__ = ("future", "late", "parts", "request")

    def __init__(self, request: Request | None, parts: list[Part] | None, late: Late | None = None) -> None:
        self.request = request
        self.parts = parts
        self.late = late
        self.future: asyncio.Future[Any] | Promise[Any] | None = None


class Connection(asyncio.BufferedProtocol):
    __slots__ = (
        "_buffer",
        "_dispatcher",
        "_exclusive",
        "_group",
        "_lane",
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
        "last_active",
        "listener",
        "on_close",
        "peer",
    )

    def __init__(
        self,
        listener: Listener,
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
        self._lane = dispatcher.produce_lane
        self._loop = asyncio.get_running_loop()
        self._buffer = ReceiveBuffer(frame_bytes_max, listener.budget)
        self._transport: asyncio.Transport | None = None
        self._sender: SocketSender | TransportSender
        self._group: list[Taken] = []  # produce requests for one partition, to be appended together
        self._pending: deque[_Pending] = deque()
        self._outbox: list[Part] = []
        self._outbox_bytes = 0
        self._outbox_plain = True  # bytes only, no file regions
        self._reading = True
        self._exclusive = False  # a coroutine handler runs: the next request waits for it
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

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.space()

    def buffer_updated(self, nbytes: int) -> None:
        self._buffer.received(nbytes)
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
        """Close at once; what was answered and taken by the kernel still arrives."""
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
            self._settle_group()
            self._refuse(str(error))
        except Exception:
            self._fail()
        finally:
            self._processing = False
        if not self.closed:
            self._flush_outbox()
            self._read_or_rest()

    def _take_frames(self) -> None:
        next_frame, take = self._buffer.next_frame, self._lane.take
        held = self._held()
        while not held:
            frame = next_frame()
            if frame is None:
                self._settle_group()
                self._find_room()
                return
            taken = take(frame)
            if taken is None:
                self._settle_group()
                self._handle(frame)
                held = self._held()
                continue
            group = self._group
            if group and (group[0].way.partition is not taken.way.partition or len(group) >= GROUP_MAX):
                self._settle_group()
                held = self._held()
            self._group.append(taken)
        self._settle_group()

    def _find_room(self) -> None:
        """Get the buffer ready for the next read, or stand in line for the memory of a large frame."""
        self._starved = not self._buffer.make_room()
        if self._starved:
            self.listener.budget.wait(self._room_again)

    def _room_again(self) -> None:
        if not self.closed and self._starved:
            self._find_room()
            self._read_or_rest()

    def _settle_group(self) -> None:
        """Carry out the produce requests that were put together."""
        while self._group:
            group, self._group = self._group, []
            answers = self._lane.append(group)
            for answer in answers:
                if isinstance(answer, asyncio.Future):
                    self._await(None, answer)
                elif self._pending:
                    self._pending.append(_Pending(None, [answer]))  # which would not wait in line
                else:
                    self._outbox.append(answer)
                    self._outbox_bytes += len(answer)
            if len(answers) < len(group):
                self._handle(group[len(answers)].frame)
                self._group = group[len(answers) + 1 :]
        if self._outbox_bytes >= OUTBOX_MAX_BYTES:
            self._flush_outbox()

    def _request_of(self, frame: memoryview) -> tuple[Request, int]:
        """The request's head, and where its message begins."""
        head = read_request_header(frame)
        request = Request(self, head.api_key, head.api_version, head.correlation_id, head.client_id)
        return request, head.body_pos

    def _held(self) -> bool:
        waiting = self._exclusive or self._starved or self._sender.busy
        return self.closed or waiting or len(self._pending) >= PENDING_MAX

    def _read_or_rest(self) -> None:
        """Read the socket only while requests are being taken from the buffer."""
        wanted = not self._held()
        if wanted != self._reading and self._transport is not None:
            self._reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _handle(self, frame: memoryview) -> None:
        """Take one request the long way."""
        if self.closed:
            return
        try:
            request, body_pos = self._request_of(frame)
            self._take_answer(request, self._dispatcher.dispatch(request, frame, body_pos))
            if self._outbox_bytes >= OUTBOX_MAX_BYTES:
                self._flush_outbox()
        except DecodeError as error:
            self._refuse(f"request not understood: {error}")
        except CloseConnection as error:
            self._refuse(str(error))
        except Exception:
            self._fail()

    def _take_answer(self, request: Request, answer: Any) -> None:
        if answer is None:
            return  # acks=0
        if isinstance(answer, Message):
            parts = self._encode(request, answer)
            if self._pending:
                self._pending.append(_Pending(None, parts))
            else:
                self._put(parts)
        elif isinstance(answer, asyncio.Future | Promise):
            self._await(request, answer)
        elif isinstance(answer, Late):
            if self._pending:
                self._pending.append(_Pending(request, None, answer))
            else:
                self._put(self._encode(request, answer.build()))
        else:
            assert asyncio.iscoroutine(answer), answer
            self._exclusive = True
            self._await(request, self._loop.create_task(answer))

    def _await(self, request: Request | None, future: asyncio.Future[Any] | Promise[Any]) -> None:
        """Stand in line until it is done; without `request` it is the future of a whole frame."""
        pending = _Pending(request, None)
        pending.future = future
        self._pending.append(pending)
        future.add_done_callback(self._answered)

    def _answered(self, future: asyncio.Future[Any] | Promise[Any]) -> None:
        if isinstance(future, asyncio.Task):
            self._exclusive = False
        if self.closed:
            if not future.cancelled():
                future.exception()  # the peer has left: nobody else will look at it
            return
        self._send_finished()
        self._process()

    def _send_finished(self) -> None:
        """Move every finished response at the head of the line to the outbox."""
        pending = self._pending
        while pending and not self.closed:
            head = pending[0]
            if head.future is not None and not head.future.done():
                break
            if head.parts is None:
                head.parts = self._result_parts(head)
                if head.parts is None:
                    return
            pending.popleft()
            assert head.parts is not None
            self._put(head.parts)

    def _result_parts(self, pending: _Pending) -> list[Part] | None:
        """The encoded result of a finished future; None after closing the connection on a failure."""
        try:
            if pending.request is None:
                assert pending.future is not None
                return [pending.future.result()]
            if pending.late is not None:
                return self._encode(pending.request, pending.late.build())
            assert pending.future is not None
            return self._encode(pending.request, pending.future.result())
        except asyncio.CancelledError:
            self.close()
        except CloseConnection as error:
            self._refuse(str(error))
        except DecodeError as error:
            self._refuse(f"request not understood: {error}")
        except Exception:
            self._fail()
        return None

    def _encode(self, request: Request, answer: Any) -> list[Part]:
        return encode_response(request.api_key, request.version, request.correlation_id, answer)

    # -- responses

    def _put(self, parts: list[Part]) -> None:
        self._outbox += parts
        for part in parts:
            self._outbox_bytes += len(part)
            if type(part) is not bytes:
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

    def _refuse(self, reason: str) -> None:
        log.warning("connection closed: %s peer=%s", reason, self.peer)
        self._flush_outbox()  # what was asked before was answered: only the rest is lost
        self.close()

    def _fail(self) -> None:
        """A bug of ours: called while its exception is handled."""
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
            # A long poll has nobody to answer any more; a coroutine may be changing something and goes on.
            if pending.future is not None and not isinstance(pending.future, asyncio.Task):
                pending.future.cancel()
        self._pending.clear()
