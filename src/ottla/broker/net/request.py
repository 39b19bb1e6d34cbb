"""What a connection and the request handlers share: the request, special responses, and their interfaces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ottla.protocol.message import Message


class CloseConnection(Exception):
    """Raised by a handler to close the connection where the protocol has no error response (acks=0)."""


class DeferredResponse:
    """A response that is built when it is next to be sent, not when its request is read.

    Requests after a long poll are read at once. A response that describes the present state, such as
    Metadata, would be out of date by the time the poll ends.
    """

    __slots__ = ("build",)

    def __init__(self, build: Callable[[], Message]) -> None:
        self.build = build


class ListenerInfo(Protocol):
    """What handlers may know about the listener of a request."""

    @property
    def name(self) -> str: ...

    @property
    def is_controller(self) -> bool: ...


class ClientConnection(Protocol):
    """What handlers may know about the connection of a request."""

    client_software: str
    on_close: Callable[[], None] | None

    @property
    def listener(self) -> ListenerInfo: ...

    @property
    def peer(self) -> str: ...

    @property
    def closed(self) -> bool: ...


class Request:
    """The context of a message: its connection, API version and client id."""

    __slots__ = ("api_key", "client_id", "connection", "correlation_id", "version")

    def __init__(
        self,
        connection: ClientConnection,
        api_key: int,
        version: int,
        correlation_id: int,
        client_id: str | None,
    ) -> None:
        self.connection = connection
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id

    @property
    def listener(self) -> ListenerInfo:
        return self.connection.listener

    @property
    def on_controller_listener(self) -> bool:
        return self.connection.listener.is_controller


class FastRequest(Protocol):
    """A request that the fast path has accepted."""

    @property
    def frame(self) -> memoryview: ...

    @property
    def partition(self) -> object: ...


class FastPath(Protocol):
    """Handles the most common requests without decoding them in full."""

    def accept(self, frame: memoryview) -> Any:
        """Return a FastRequest, or None if the request must be dispatched."""

    def append(self, requests: Sequence[Any]) -> Sequence[bytes | asyncio.Future[bytes]]:
        """Return the response frames of requests to one partition: fewer than requests if the next one must
        be dispatched."""


class Dispatcher(Protocol):
    """Finds the handler of a request."""

    @property
    def fast_path(self) -> FastPath: ...

    def dispatch(self, request: Request, frame: memoryview, pos: int) -> Any:
        """Return a message, a Future or Promise, a coroutine, a DeferredResponse, or None for no response."""
