"""From a frame to its handler. The table of handlers is also what ApiVersions advertises: only what works."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.api.produce_lane import ProduceLane
from ottla.protocol.api import API_BY_KEY
from ottla.protocol.errors import DecodeError

if TYPE_CHECKING:
    from ottla.broker.net.request import Request
    from ottla.broker.node import Node

API_VERSIONS_KEY = 18
PRODUCE_KEY = 0
INIT_PRODUCER_ID_KEY = 22


class AdvertisedApi(NamedTuple):
    key: int
    min_version: int
    max_version: int


class _Route:
    """A handler that is imported when its first request comes: start-up pays only for what is used."""

    __slots__ = ("_handle", "_module", "_read", "key", "max_version", "min_version")

    def __init__(self, key: int, module: str) -> None:
        api = API_BY_KEY[key]
        self.key = key
        self.min_version = api.min_version
        self.max_version = api.max_version
        self._module = module
        self._handle: Callable[..., Any] | None = None
        self._read: Callable[..., Any] | None = None

    def read(self, version: int, frame: memoryview, pos: int) -> Any:
        """The request's message. Bytes behind it are let be, as Kafka does: librdkafka's Metadata 13 has
        three."""
        if self._read is None:
            self._load()
        assert self._read is not None
        return self._read(version, frame, pos)[0]

    def handle(self, broker: Node, request: Request, message: Any) -> Any:
        assert self._handle is not None, "read comes first"
        return self._handle(broker, request, message)

    def _load(self) -> None:
        module = importlib.import_module(f"ottla.broker.api.handlers.{self._module}")
        keys = getattr(module, "API_KEYS", None) or (module.API_KEY,)
        assert self.key in keys, f"{self._module} handles {keys}, not API {self.key}"
        self._handle, self._read = module.handle, API_BY_KEY[self.key].request_class().read


class Dispatcher:
    def __init__(self, broker: Node, handlers: dict[int, str]) -> None:
        self._broker = broker
        self.fast_path = ProduceLane(broker)
        self._routes = {key: _Route(key, module) for key, module in handlers.items()}
        if INIT_PRODUCER_ID_KEY in handlers and broker.config.get_bool("transaction.two.phase.commit.enable"):
            # Its newest version is not stable, and of use only for this.
            self._routes[INIT_PRODUCER_ID_KEY].max_version = API_BY_KEY[INIT_PRODUCER_ID_KEY].newest_version

    def advertised(self) -> list[AdvertisedApi]:
        """The version ranges that clients are told."""
        return [
            # librdkafka reads features off Produce's minimum: say 0 as Kafka does, and refuse below 3.
            AdvertisedApi(key, 0 if key == PRODUCE_KEY else route.min_version, route.max_version)
            for key, route in sorted(self._routes.items())
        ]

    def dispatch(self, request: Request, frame: memoryview, pos: int) -> Any:
        """The handler's answer: a message, a Future or Promise, a coroutine, or None for no response."""
        route = self._routes.get(request.api_key)
        if route is None:
            raise DecodeError(f"API key {request.api_key} (version {request.version}) is not served here")
        if not route.min_version <= request.version <= route.max_version:
            if request.api_key == API_VERSIONS_KEY:
                return self._unsupported_api_versions(request)
            raise DecodeError(
                f"version {request.version} of API {request.api_key}; "
                f"{route.min_version} to {route.max_version} are served"
            )
        message = route.read(request.version, frame, pos)
        answer = route.handle(self._broker, request, message)
        if request.api_key == PRODUCE_KEY:
            self.fast_path.learn(frame, request.version, message)
        return answer

    def _unsupported_api_versions(self, request: Request) -> Any:
        """A client from the future: tell it our versions in the one format that everybody reads."""
        from ottla.broker.api.handlers.api_versions import unsupported_version

        request.version = 0
        return unsupported_version(self)
