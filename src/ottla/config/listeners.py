"""Addresses in the configuration: listeners, advertised listeners, and quorum voters."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.config.definitions import ConfigError, is_number

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
# A listener with another protocol fails at start: serving it without encryption would be worse.
SUPPORTED_PROTOCOLS = ("PLAINTEXT",)


class Endpoint:
    """A listener address. An empty `host` means all interfaces, `port` 0 any free port."""

    __slots__ = ("host", "name", "port", "security_protocol")

    def __init__(self, name: str, host: str, port: int, security_protocol: str) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Endpoint) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port} ({self.security_protocol})"


class Voter:
    """An entry of controller.quorum.voters."""

    __slots__ = ("host", "node_id", "port")

    def __init__(self, node_id: int, host: str, port: int) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port


def parse_protocol_map(text: str) -> dict[str, str]:
    key = "listener.security.protocol.map"
    found: dict[str, str] = {}
    for item in text.split(","):
        name, colon, protocol = item.strip().partition(":")
        if not item.strip():
            continue
        if not colon or not name or protocol.upper() not in SECURITY_PROTOCOLS:
            raise ConfigError(
                key, text, f"must be NAME:PROTOCOL,... with one of {', '.join(SECURITY_PROTOCOLS)}"
            )
        if name.upper() in found:
            raise ConfigError(key, text, f"must not contain {name} twice")
        found[name.upper()] = protocol.upper()
    return found


def _host_port(text: str) -> tuple[str, int] | None:
    """Parse host:port or [v6]:port; the host may be empty."""
    host, colon, port = text.rpartition(":")
    if not colon or not is_number(port, 5) or int(port) > 65535:
        return None
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], int(port)
    return None if set(host) & set(":[]/@ ") else (host, int(port))


def parse_listeners(key: str, items: Sequence[str], protocols: dict[str, str]) -> tuple[Endpoint, ...]:
    """Parse `listeners` or `advertised.listeners`."""
    found: list[Endpoint] = []
    for item in items:
        name, _, address = item.partition("://")
        parsed = _host_port(address)
        if parsed is None or not name:
            raise ConfigError(key, item, "must be NAME://host:port, for example PLAINTEXT://localhost:9092")
        name = name.upper()
        if name not in protocols:
            known = ", ".join(protocols)
            raise ConfigError(
                key, item, f"{name} is not in listener.security.protocol.map ({known}): add it there"
            )
        if any(endpoint.name == name for endpoint in found):
            raise ConfigError(key, ",".join(items), f"must contain only one address for {name}")
        if protocols[name] not in SUPPORTED_PROTOCOLS:
            can = ", ".join(SUPPORTED_PROTOCOLS)
            raise ConfigError(key, item, f"{protocols[name]} is not supported; use {can}")
        found.append(Endpoint(name, *parsed, protocols[name]))
    return tuple(found)


def parse_address(key: str, item: str) -> tuple[str, int]:
    parsed = _host_port(item)
    if parsed is None or not parsed[0] or not parsed[1]:
        raise ConfigError(key, item, "must be host:port with a port between 1 and 65535")
    return parsed


def parse_voters(items: Sequence[str]) -> tuple[Voter, ...]:
    key = "controller.quorum.voters"
    found: list[Voter] = []
    for item in items:
        node_id, at, address = item.partition("@")
        if not at or not is_number(node_id, 10):
            raise ConfigError(key, item, "must be id@host:port, for example 1@localhost:9093")
        host, port = parse_address(key, address)
        if any(voter.node_id == int(node_id) for voter in found):
            raise ConfigError(key, item, f"must contain voter {node_id} only once")
        found.append(Voter(int(node_id), host, port))
    return tuple(found)


def parse_per_ip(text: str) -> dict[str, int]:
    """Parse max.connections.per.ip.overrides."""
    key = "max.connections.per.ip.overrides"
    found: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        address, colon, count = item.rpartition(":")
        if not colon or not address or not is_number(count.strip(), 10):
            raise ConfigError(key, text, "must be address:count,...")
        found[address.strip().strip("[]")] = int(count)
    return found
