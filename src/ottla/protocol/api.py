"""The table of APIs: versions of each API, and its message classes, imported on first use."""

from __future__ import annotations

from importlib import import_module

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.message import Message
from ottla.protocol.messages.table import APIS

_API_VERSIONS = int(ApiKey.API_VERSIONS)

# Finding a module by the name of a message takes longer than reading a small one.
_found: dict[str, type[Message]] = {}


def snake_case(name: str) -> str:
    """The module name of a message: the generator's rule without importing `re`."""
    out = ""
    for letter in name.replace("KRaft", "Kraft"):
        out += "_" + letter if letter.isupper() else letter
    return out.lower().removeprefix("_")


def message_class(name: str) -> type[Message]:
    """The class of a message by its Kafka name, for example "FetchRequest"."""
    found = _found.get(name)
    if found is None:
        module = import_module(f"ottla.protocol.messages.{snake_case(name)}")
        found = _found[name] = getattr(module, name)
    return found


class Api:
    """One API; `max_version` is the highest stable version, `newest_version` may be an unstable one."""

    __slots__ = (
        "_request",
        "_response",
        "flexible_from",
        "key",
        "listeners",
        "max_version",
        "min_version",
        "name",
        "newest_version",
    )

    def __init__(self, row: tuple[int, str, int, int, int, int, str]) -> None:
        self.key, self.name, self.min_version, self.max_version, self.newest_version = row[:5]
        self.flexible_from, listeners = row[5:]
        self.listeners = tuple(listeners.split(","))
        self._request: type[Message] | None = None
        self._response: type[Message] | None = None

    def __repr__(self) -> str:
        return f"Api({self.key}, {self.name}, {self.min_version}-{self.max_version})"

    def request_class(self) -> type[Message]:
        if self._request is None:
            self._request = message_class(f"{self.name}Request")
        return self._request

    def response_class(self) -> type[Message]:
        if self._response is None:
            self._response = message_class(f"{self.name}Response")
        return self._response


API_BY_KEY: dict[int, Api] = {row[0]: Api(row) for row in APIS}
_FLEXIBLE_FROM: dict[int, int] = {api.key: api.flexible_from for api in API_BY_KEY.values()}


def request_header_version(api_key: int, version: int) -> int:
    """2 has tagged fields, 1 has none. Raises KeyError for an unknown API."""
    return 2 if version >= _FLEXIBLE_FROM[api_key] else 1


def response_header_version(api_key: int, version: int) -> int:
    """1 has tagged fields, 0 has none. ApiVersions always has 0: its client may not know the version."""
    return 1 if version >= _FLEXIBLE_FROM[api_key] and api_key != _API_VERSIONS else 0
