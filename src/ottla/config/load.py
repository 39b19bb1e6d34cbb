"""Loading the configuration of a node from a properties file and overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.config.broker import broker_properties
from ottla.config.definitions import ConfigError
from ottla.config.listeners import (
    Endpoint,
    Voter,
    parse_address,
    parse_listeners,
    parse_per_ip,
    parse_protocol_map,
    parse_voters,
)

# Properties of plug-ins and tools may be in the same file; they are not checked.
_FOREIGN_PREFIXES = ("rsm.config.", "rlmm.config.", "config.providers.", "internal.", "confluent.")


class BrokerConfig:
    """The validated configuration of a node. `config.get("num.partitions")` is `config.num_partitions`."""

    __slots__ = (
        "advertised_endpoints",
        "broker_endpoints",
        "connections_per_ip",
        "controller_endpoints",
        "static",
        "values",
        "voters",
        "warnings",
    )

    def __init__(self, values: dict[str, Any], static: dict[str, str], warnings: list[str]) -> None:
        self.values = values
        self.static = static  # properties that were set, as text; others have their defaults
        self.warnings = warnings
        self.broker_endpoints: tuple[Endpoint, ...] = ()
        self.controller_endpoints: tuple[Endpoint, ...] = ()
        self.advertised_endpoints: tuple[Endpoint, ...] = ()
        self.voters: tuple[Voter, ...] = ()
        self.connections_per_ip: dict[str, int] = {}

    def get(self, name: str) -> Any:
        return self.values[name]

    __getitem__ = get

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name.replace("_", ".")]
        except KeyError:
            raise AttributeError(f"no property {name.replace('_', '.')}") from None

    def is_set(self, name: str) -> bool:
        return name in self.static

    def get_int(self, name: str) -> int:
        value = self.values[name]
        assert type(value) is int, name
        return value

    def get_bool(self, name: str) -> bool:
        value = self.values[name]
        assert type(value) is bool, name
        return value

    def get_str(self, name: str) -> str:
        value = self.values[name]
        assert type(value) is str, name
        return value

    def get_list(self, name: str) -> tuple[str, ...]:
        value = self.values[name]
        assert type(value) is tuple, name
        return value

    @property
    def node_id(self) -> int:
        return self.get_int("node.id")

    @property
    def is_broker(self) -> bool:
        return "broker" in self.values["process.roles"]

    @property
    def is_controller(self) -> bool:
        return "controller" in self.values["process.roles"]

    @property
    def log_dirs(self) -> tuple[str, ...]:
        return self.values["log.dirs"] or (self.get_str("log.dir"),)

    @property
    def metadata_log_dir(self) -> str:
        return self.values["metadata.log.dir"] or self.log_dirs[0]

    def internal_replication_factor(self, name: str, brokers: int) -> int:
        """The replication factor of an internal topic; a default is reduced to the number of brokers."""
        configured = self.get_int(name)
        return configured if self.is_set(name) else max(1, min(configured, brokers))

    def internal_min_isr(self, name: str, replication_factor: int) -> int:
        """min.insync.replicas of an internal topic; a default is reduced to less than the replication
        factor."""
        configured = self.get_int(name)
        return configured if self.is_set(name) else max(1, min(configured, replication_factor - 1))


def load_broker_config(path: str | None = None, overrides: Mapping[str, str] | None = None) -> BrokerConfig:
    """Load a properties file; `overrides` take precedence. Raises ConfigError, or OSError for the file."""
    given: dict[str, str] = {}
    if path is not None:
        from ottla.config.properties import PropertiesError, parse_properties

        with open(path, encoding="utf-8") as file:
            text = file.read()
        try:
            given.update(parse_properties(text))
        except PropertiesError as error:
            raise ConfigError("config", path, str(error)) from None
    given.update(overrides or {})
    return broker_config(given)


def broker_config(given: Mapping[str, str]) -> BrokerConfig:
    """Validate properties given as text."""
    properties = broker_properties()
    values = {name: prop.default for name, prop in properties.items()}
    static: dict[str, str] = {}
    warnings: list[str] = []
    for name, text in given.items():
        prop = properties.get(name)
        if prop is None:
            warning = _unknown(name)
            if warning is not None:
                warnings.append(warning)
            continue
        values[name] = prop.parse(text)
        static[name] = text
    config = BrokerConfig(values, static, warnings)
    _set_identity(config)
    _set_endpoints(config)
    _check_dependencies(config)
    return config


def _unknown(name: str) -> str | None:
    properties = broker_properties()
    if name.startswith("listener.name.") and any(name.endswith("." + known) for known in properties):
        return f"{name} has no effect: properties of a single listener are not supported"
    if name.startswith(_FOREIGN_PREFIXES):
        return None
    import difflib

    near = difflib.get_close_matches(name, properties, n=1, cutoff=0.8)
    return f"unknown property {name}" + (f", did you mean {near[0]}?" if near else "")


def _set_identity(config: BrokerConfig) -> None:
    values = config.values
    if config.is_set("broker.id"):
        if config.is_set("node.id") and values["node.id"] != values["broker.id"]:
            raise ConfigError("broker.id", values["broker.id"], f"must equal node.id ({values['node.id']})")
        if values["broker.id"] < 0:
            raise ConfigError("broker.id", values["broker.id"], "must be at least 0")
        values["node.id"] = values["broker.id"]
        config.static.setdefault("node.id", config.static["broker.id"])
    values["broker.id"] = values["node.id"]
    if not values["process.roles"]:
        raise ConfigError("process.roles", "", "must contain broker, controller, or both")


def _set_endpoints(config: BrokerConfig) -> None:
    values = config.values
    controller_names = {name.upper() for name in values["controller.listener.names"]}
    protocols = parse_protocol_map(values["listener.security.protocol.map"])
    if not config.is_set("listener.security.protocol.map"):
        protocols.update(dict.fromkeys(controller_names - set(protocols), "PLAINTEXT"))
    everything = parse_listeners("listeners", values["listeners"], protocols)
    config.broker_endpoints = tuple(each for each in everything if each.name not in controller_names)
    config.controller_endpoints = tuple(each for each in everything if each.name in controller_names)
    listeners = config.static.get("listeners", ",".join(values["listeners"]))
    if config.is_broker and not config.broker_endpoints:
        raise ConfigError(
            "listeners", listeners, "must contain a listener that is not in controller.listener.names"
        )
    if not config.is_broker and not config.controller_endpoints:
        raise ConfigError("listeners", listeners, "must contain a listener of controller.listener.names")
    advertised = values["advertised.listeners"]
    if advertised is None:
        endpoints = config.broker_endpoints
    else:
        endpoints = parse_listeners("advertised.listeners", advertised, protocols)
        names = {each.name for each in everything}
        for endpoint in endpoints:
            if endpoint.name not in names:
                allowed = f"{endpoint.name} must be a name in listeners ({', '.join(sorted(names))})"
                raise ConfigError("advertised.listeners", ",".join(advertised), allowed)
        endpoints = tuple(each for each in endpoints if each.name not in controller_names)
        bad = [each for each in endpoints if each.host in ("", "0.0.0.0", "::")]
        if bad:
            raise ConfigError(
                "advertised.listeners",
                ",".join(advertised),
                "must contain an address that clients can reach, not a wildcard",
            )
    config.advertised_endpoints = endpoints
    config.voters = parse_voters(values["controller.quorum.voters"])
    config.connections_per_ip = parse_per_ip(values["max.connections.per.ip.overrides"])
    for item in values["controller.quorum.bootstrap.servers"]:
        parse_address("controller.quorum.bootstrap.servers", item)


def _check_dependencies(config: BrokerConfig) -> None:
    """Check properties that depend on each other."""
    values = config.values
    node_id = config.node_id
    voters = [voter.node_id for voter in config.voters]
    shown = config.static.get("controller.quorum.voters", "")
    if voters and config.is_controller and node_id not in voters:
        raise ConfigError(
            "controller.quorum.voters", shown, f"must contain this controller (node.id={node_id})"
        )
    if voters and not config.is_controller and node_id in voters:
        raise ConfigError(
            "node.id", node_id, "must not be in controller.quorum.voters if process.roles is only broker"
        )
    if not config.is_controller and not voters and not values["controller.quorum.bootstrap.servers"]:
        allowed = (
            "without the controller role, set controller.quorum.voters or controller.quorum.bootstrap.servers"
        )
        raise ConfigError("process.roles", "broker", allowed)
    name = values["inter.broker.listener.name"]
    names = [endpoint.name for endpoint in config.advertised_endpoints]
    if name is not None and config.is_broker and name.upper() not in names:
        raise ConfigError("inter.broker.listener.name", name, f"must be one of {', '.join(names)}")
    at_least = (
        ("broker.session.timeout.ms", "broker.heartbeat.interval.ms", 2),
        ("group.max.session.timeout.ms", "group.min.session.timeout.ms", 1),
        ("replica.lag.time.max.ms", "replica.fetch.wait.max.ms", 1),
        ("log.cleaner.max.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", 1),
    )
    for larger, smaller, factor in at_least:
        if values[larger] < factor * values[smaller]:
            times = "" if factor == 1 else f"{factor} times "
            raise ConfigError(
                larger, values[larger], f"must be at least {times}{smaller} ({values[smaller]})"
            )
    queued = values["queued.max.request.bytes"]
    if 0 < queued < values["socket.request.max.bytes"]:
        allowed = f"must be at least socket.request.max.bytes ({values['socket.request.max.bytes']})"
        raise ConfigError("queued.max.request.bytes", queued, allowed)
    if values["max.connections.per.ip"] == 0 and not config.connections_per_ip:
        raise ConfigError("max.connections.per.ip", 0, "may be 0 only with max.connections.per.ip.overrides")
    if (
        values["log.retention.ms"] == 0
        or values["log.retention.minutes"] == 0
        or values["log.retention.hours"] == 0
    ):
        key = next(
            k for k in ("log.retention.ms", "log.retention.minutes", "log.retention.hours") if values[k] == 0
        )
        raise ConfigError(key, 0, "must be -1 (no limit) or at least 1")
