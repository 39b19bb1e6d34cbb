"""One blocking connection to one broker, for code without an event loop such as Spark's Python workers.

Measured against the asyncio connection on a private loop: 40 % less CPU per fetched byte, and no loop to
carry over a fork. Several requests may be sent before the first response is received; responses come in the
order of the requests.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections import deque
from typing import NamedTuple, TypeVar, cast

from ottla.client.clock import deadline_in
from ottla.client.core.negotiation import (
    CORRELATION_ID_MAX,
    NEWEST_API_VERSIONS,
    RESPONSE_BYTES_MAX,
    Negotiated,
    decode_answer,
    versions_request,
)
from ottla.client.core.retry import Deadline
from ottla.client.errors import (
    ClientError,
    ConnectionFailedError,
    NotKafkaError,
    RequestTimeoutError,
)
from ottla.protocol.api import API_BY_KEY, Api
from ottla.protocol.errors import DecodeError
from ottla.protocol.frames import request_parts
from ottla.protocol.message import Message, Part
from ottla.protocol.messages.api_versions_response import ApiVersionsResponse

SIZE_BYTES = 4
AHEAD_BYTES = 4096
# A wait may be longer than its time-out by this factor.
TIMEOUT_SLACK = 1.01
# sendmsg takes a bounded number of them (IOV_MAX is 1024 on Linux).
PARTS_MAX = 512

Response = TypeVar("Response", bound=Message)


class ReceiveMemory:
    """Reusable memory for large responses: fresh pages cost as much as the copy into them."""

    __slots__ = ("_memory",)

    def __init__(self) -> None:
        self._memory = bytearray()

    def take(self, size: int) -> memoryview:
        if len(self._memory) < size:
            self._memory = bytearray(size)
        return memoryview(self._memory)[:size]


class _Awaited(NamedTuple):
    correlation_id: int
    api: Api
    version: int
    deadline: Deadline


class SyncConnection(Negotiated):
    """Speaks Kafka's protocol with one broker over a blocking socket; not for several threads at once.

    After a time-out or a broken frame the connection is closed: later responses could not be matched.
    """

    def __init__(self, host: str, port: int, *, client_id: str = "ottla", timeout_ms: float = 10_000) -> None:
        super().__init__(host, port, client_id)
        self._awaited: deque[_Awaited] = deque()
        self._correlation_id = 0
        self._pid = os.getpid()
        self._closed_by: ClientError | None = None
        self._timeout_s = timeout_ms / 1000
        # Most responses are short: one call receives size and content.
        self._ahead_memory = memoryview(bytearray(AHEAD_BYTES))
        self._ahead = self._ahead_memory[:0]
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_ms / 1000)
        except TimeoutError:
            raise RequestTimeoutError(f"{self.address}: no connection within {timeout_ms:g} ms") from None
        except OSError as error:
            raise ConnectionFailedError(
                f"{self.address}: cannot connect: {error.strerror or error}; is a broker running there?"
            ) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._readable = select.poll()
        self._readable.register(self._socket, select.POLLIN)
        self._negotiate(timeout_ms)

    @property
    def is_open(self) -> bool:
        return self._closed_by is None

    @property
    def is_idle(self) -> bool:
        """Open, without a response due, and opened by this process: the next caller may use it."""
        return self._closed_by is None and not self._awaited and self._pid == os.getpid()

    def has_answer(self) -> bool:
        """Whether there is something to read; if no response is due, that is almost always the end."""
        if self._ahead:
            return True
        try:
            return bool(self._readable.poll(0))
        except (OSError, ValueError):
            return True

    def request(
        self,
        message: Message,
        response: type[Response],
        *,
        timeout_ms: float = 30_000,
        at_most: int | None = None,
    ) -> Response:
        """Send and wait for the response; no other response may be due."""
        assert not self._awaited, "an earlier response was not received"
        self.send(message, timeout_ms=timeout_ms, at_most=at_most)
        return self.receive(response)

    def send(
        self,
        message: Message,
        *,
        timeout_ms: float = 30_000,
        at_most: int | None = None,
        unanswered: bool = False,
    ) -> None:
        """Send without waiting; `receive` returns the response, unless there is none (acks=0)."""
        version = self.version_for(message.API_KEY, at_most)
        self._write(message, version, timeout_ms, unanswered=unanswered)

    def receive(self, response: type[Response], memory: ReceiveMemory | None = None) -> Response:
        """The response to the oldest request; its records are in `memory` until that is reused."""
        awaited = self._awaited[0]
        assert awaited.api.response_class() is response, (
            f"{response} is not the response of {awaited.api.name}"
        )
        return cast(Response, self._read(awaited, memory))

    def extend_deadlines(self, seconds: float) -> None:
        """The caller was busy for so long: give the responses that are due this time in addition."""
        for awaited in self._awaited:
            awaited.deadline.extend(seconds)

    def __del__(self) -> None:
        """Close connections of a cluster that was dropped without being closed."""
        opened = getattr(self, "_socket", None)  # none, if it could not be opened
        if opened is not None:
            opened.close()

    def close(self) -> None:
        self._fail(ConnectionFailedError(f"{self.address}: the connection was closed"))

    def _negotiate(self, timeout_ms: float) -> None:
        version: int | None = NEWEST_API_VERSIONS
        try:
            while version is not None:
                self._write(versions_request(), version, timeout_ms)
                answer = self._read(self._awaited[0], None)
                version = self.take_versions(cast(ApiVersionsResponse, answer), version)
        except ClientError as error:
            self._fail(error)
            raise

    def _write(self, message: Message, version: int, timeout_ms: float, *, unanswered: bool = False) -> None:
        if self._closed_by is not None:
            raise ConnectionFailedError(str(self._closed_by)) from self._closed_by
        self._correlation_id = 0 if self._correlation_id == CORRELATION_ID_MAX else self._correlation_id + 1
        parts = request_parts(version, self._correlation_id, self.client_id, message)
        deadline = deadline_in(timeout_ms)
        if not unanswered:
            api = API_BY_KEY[message.API_KEY]
            self._awaited.append(_Awaited(self._correlation_id, api, version, deadline))
        try:
            self._send_all(parts, deadline)
        except OSError as error:
            raise self._broken(error, f"the request was not sent within {timeout_ms:g} ms") from None

    def _send_all(self, parts: list[Part], deadline: Deadline) -> None:
        while parts:
            self._set_timeout(deadline)
            sent = self._socket.sendmsg(parts[:PARTS_MAX])  # type: ignore[arg-type]
            done = 0
            while done < len(parts) and sent >= len(parts[done]):
                sent -= len(parts[done])
                done += 1
            del parts[:done]
            if sent:
                parts[0] = memoryview(parts[0])[sent:]  # type: ignore[arg-type]

    def _read(self, awaited: _Awaited, memory: ReceiveMemory | None) -> Message:
        if self._closed_by is not None:
            raise ConnectionFailedError(str(self._closed_by)) from self._closed_by
        try:
            frame = self._receive_frame(awaited.deadline, memory)
            message = _decode(awaited, frame)
        except OSError as error:
            api, within_ms = awaited.api, awaited.deadline.timeout_ms
            timed_out = f"no response to {api.name} v{awaited.version} within {within_ms:g} ms"
            raise self._broken(error, timed_out) from None
        except DecodeError as error:
            failure = NotKafkaError(f"{self.address}: not a Kafka response: {error}; is it a Kafka broker?")
            self._fail(failure)
            raise failure from None
        self._awaited.popleft()
        return message

    def _receive_frame(self, deadline: Deadline, memory: ReceiveMemory | None) -> memoryview:
        size = self._receive_size(deadline)
        if not SIZE_BYTES <= size <= RESPONSE_BYTES_MAX:
            raise DecodeError(f"a response of {size} bytes (at most {RESPONSE_BYTES_MAX} are allowed)")
        frame = memoryview(bytearray(size)) if memory is None else memory.take(size)
        filled = min(size, len(self._ahead))
        frame[:filled] = self._ahead[:filled]
        self._ahead = self._ahead[filled:]
        while filled < size:
            filled += self._receive_into(frame[filled:], deadline)
        return frame

    def _receive_size(self, deadline: Deadline) -> int:
        memory, filled = self._ahead_memory, len(self._ahead)
        if filled < SIZE_BYTES:
            memory[:filled] = self._ahead
            while filled < SIZE_BYTES:
                filled += self._receive_into(memory[filled:], deadline)
            self._ahead = memory[:filled]
        size = int.from_bytes(self._ahead[:SIZE_BYTES], "big", signed=True)
        self._ahead = self._ahead[SIZE_BYTES:]
        return size

    def _receive_into(self, view: memoryview, deadline: Deadline) -> int:
        self._set_timeout(deadline)
        count = self._socket.recv_into(view)
        if count == 0:
            raise ConnectionResetError("the broker closed the connection")
        return count

    def _set_timeout(self, deadline: Deadline) -> None:
        """Set the remaining time, unless the present time-out is close: each change is a system call."""
        left_s = max(deadline.left_ms, 1) / 1000
        if not left_s <= self._timeout_s <= left_s * TIMEOUT_SLACK:
            self._socket.settimeout(left_s)
            self._timeout_s = left_s

    def _broken(self, error: OSError, when_late: str) -> ClientError:
        failure: ClientError
        if isinstance(error, TimeoutError):
            failure = RequestTimeoutError(f"{self.address}: {when_late}")
        else:
            failure = ConnectionFailedError(f"{self.address}: the connection broke: {error}")
        self._fail(failure)
        return failure

    def _fail(self, error: ClientError) -> None:
        if self._closed_by is None:
            self._closed_by = error
            self._awaited.clear()
            with contextlib.suppress(OSError):
                self._socket.close()


def _decode(awaited: _Awaited, frame: memoryview) -> Message:
    """The body of a response. Raises DecodeError, also if it belongs to another request."""
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    if correlation_id != awaited.correlation_id:
        raise DecodeError(f"response {correlation_id} where {awaited.correlation_id} was expected")
    return decode_answer(awaited.api, awaited.version, frame)
