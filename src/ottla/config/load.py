"""Loads the configuration of a node: a server.properties, settings given by hand, defaults for the rest."""

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

# Settings of plug-ins and tools share the file; they are not ours to judge.
_FOREIGN_PREFIXES = ("rsm.config.", "rlmm.config.", "config.providers.", "internal.", "confluent.")


class BrokerConfig:
    """The configuration of a node, checked. `config.get("num.partitions")` is `config.num_partitions`."""

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
        self.static = static  # what was set, as text: the rest are defaults
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
        """Replicas of an internal topic: as set, else the default as far as there are brokers for it."""
        wanted = self.get_int(name)
        return wanted if self.is_set(name) else max(1, min(wanted, brokers))

    def internal_min_isr(self, name: str, replication_factor: int) -> int:
        """min.insync.replicas of an internal topic: as set, else one less than its replicas can hold."""
        wanted = self.get_int(name)
        return wanted if self.is_set(name) else max(1, min(wanted, replication_factor - 1))


def load_broker_config(path: str | None = None, overrides: Mapping[str, str] | None = None) -> BrokerConfig:
    """The configuration of a file and of settings that go before it; ConfigError, or OSError for the file."""
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
    """The configuration of properties given as text."""
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
    _settle_identity(config)
    _settle_addresses(config)
    _check_together(config)
    return config


def _unknown(name: str) -> str | None:
    properties = broker_properties()
    if name.startswith("listener.name.") and any(name.endswith("." + known) for known in properties):
        return f"{name} is set for one listener, which this version does not support: it has no effect"
    if name.startswith(_FOREIGN_PREFIXES):
        return None
    import difflib

    near = difflib.get_close_matches(name, properties, n=1, cutoff=0.8)
    return f"unknown property {name}" + (f", did you mean {near[0]}?" if near else "")


def _settle_identity(config: BrokerConfig) -> None:
    values = config.values
    if config.is_set("broker.id"):
        if config.is_set("node.id") and values["node.id"] != values["broker.id"]:
            raise ConfigError(
                "broker.id", values["broker.id"], f"must be node.id, which is {values['node.id']}"
            )
        if values["broker.id"] < 0:
            raise ConfigError("broker.id", values["broker.id"], "must be at least 0")
        values["node.id"] = values["broker.id"]
        config.static.setdefault("node.id", config.static["broker.id"])
    values["broker.id"] = values["node.id"]
    if not values["process.roles"]:
        raise ConfigError("process.roles", "", "must hold broker, controller or both")


def _settle_addresses(config: BrokerConfig) -> None:
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
        raise ConfigError("listeners", listeners, "must have one that is not in controller.listener.names")
    if not config.is_broker and not config.controller_endpoints:
        raise ConfigError("listeners", listeners, "must have one of controller.listener.names")
    advertised = values["advertised.listeners"]
    if advertised is None:
        endpoints = config.broker_endpoints
    else:
        endpoints = parse_listeners("advertised.listeners", advertised, protocols)
        names = {each.name for each in everything}
        for endpoint in endpoints:
            if endpoint.name not in names:
                allowed = f"{endpoint.name} must be one of listeners ({', '.join(sorted(names))})"
                raise ConfigError("advertised.listeners", ",".join(advertised), allowed)
        endpoints = tuple(each for each in endpoints if each.name not in controller_names)
        bad = [each for each in endpoints if each.host in ("", "0.0.0.0", "::")]
        if bad:
            raise ConfigError(
                "advertised.listeners", ",".join(advertised), "must name a host that clients can reach"
            )
    config.advertised_endpoints = endpoints
    config.voters = parse_voters(values["controller.quorum.voters"])
    config.connections_per_ip = parse_per_ip(values["max.connections.per.ip.overrides"])
    for item in values["controller.quorum.bootstrap.servers"]:
        parse_address("controller.quorum.bootstrap.servers", item)


def _check_together(config: BrokerConfig) -> None:
    """What only shows when two properties are looked at together."""
    values = config.values
    node_id = config.node_id
    voters = [voter.node_id for voter in config.voters]
    shown = config.static.get("controller.quorum.voters", "")
    if voters and config.is_controller and node_id not in voters:
        raise ConfigError("controller.quorum.voters", shown, f"must have this controller, node.id={node_id}")
    if voters and not config.is_controller and node_id in voters:
        raise ConfigError("node.id", node_id, "must not be a voter when process.roles is just broker")
    if not config.is_controller and not voters and not values["controller.quorum.bootstrap.servers"]:
        allowed = "broker alone needs controller.quorum.voters or controller.quorum.bootstrap.servers"
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
