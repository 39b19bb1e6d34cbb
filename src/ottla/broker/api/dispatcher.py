"""Dispatch of request frames to their handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.records.produce_fast_path import ProduceFastPath
from ottla.broker.api.registry import (
    BROKER_LISTENER,
    CONTROLLER_LISTENER,
    ServedVersions,
    declaration,
    served_versions,
)
from ottla.protocol.api import API_BY_KEY
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.api.declaration import Handler
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request

_API_VERSIONS = int(ApiKey.API_VERSIONS)
_PRODUCE = int(ApiKey.PRODUCE)


class _Route:
    """An API of one listener; its handler is created on the first request."""

    __slots__ = ("handle", "max_version", "min_version", "read")

    def __init__(self, versions: ServedVersions) -> None:
        self.min_version = versions.min_version
        self.max_version = versions.max_version
        self.handle: Handler | None = None
        self.read: Callable[[int, memoryview, int], tuple[Any, int]]


class Dispatcher:
    """The APIs of one kind of listener."""

    def __init__(self, parts: ApiParts, *, for_controller: bool = False) -> None:
        self.fast_path = ProduceFastPath(parts.partitions, parts.metadata, parts.clock)
        self._parts = parts
        self._for_controller = for_controller
        served = served_versions(
            CONTROLLER_LISTENER if for_controller else BROKER_LISTENER,
            two_phase_commit=parts.config.get_bool("transaction.two.phase.commit.enable"),
        )
        self._routes = {key: _Route(versions) for key, versions in served.items()}

    def dispatch(self, request: Request, frame: memoryview, pos: int) -> Any:
        """The handler's response, see `declaration.Handler`."""
        key, version = request.api_key, request.version
        route = self._routes.get(key)
        if route is None:
            raise DecodeError(f"API key {key} (version {version}) is not served here")
        if not route.min_version <= version <= route.max_version:
            if key != _API_VERSIONS:
                raise DecodeError(
                    f"version {version} of API {key}; {route.min_version} to {route.max_version} are served"
                )
            # A newer client: respond in version 0, which every client can decode.
            request.version = 0
            return self._handler(key, route)(request, None)
        handle = route.handle or self._handler(key, route)
        # Trailing bytes are ignored, as in Kafka: Metadata 13 of librdkafka has three.
        message, _ = route.read(version, frame, pos)
        response = handle(request, message)
        if key == _PRODUCE:
            self.fast_path.remember(frame, version, message)
        return response

    def _handler(self, key: int, route: _Route) -> Handler:
        api = declaration(key)
        route.read = API_BY_KEY[key].request_class().read
        route.handle = (api.create_for_controller if self._for_controller else api.create)(self._parts)
        return route.handle
