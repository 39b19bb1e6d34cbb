"""The properties of a group. Broker properties set their defaults and limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.config.definitions import ConfigError, Property, read_table
from ottla.config.topic_config import SOURCE_DEFAULT, ConfigEntry, ConfigLayers, ConfigSynonym

SOURCE_DYNAMIC_GROUP = 8

GROUP_PROPERTIES: dict[str, Property] = read_table("""
consumer.assignment.interval.ms              int      1000       >=0            all          | Minimum time between two assignments of the group.
consumer.heartbeat.interval.ms               int      5000       >=1            all          | Heartbeat interval of the members.
consumer.session.timeout.ms                  int      45000      >=1            all          | Time without heartbeats after which a member is removed.
""")  # noqa: E501

# The broker property with the default; with "min." or "max." inserted, those with the limits.
_BROKER_NAMES = {
    "consumer.assignment.interval.ms": "group.consumer.{}assignment.interval.ms",
    "consumer.heartbeat.interval.ms": "group.consumer.{}heartbeat.interval.ms",
    "consumer.session.timeout.ms": "group.consumer.{}session.timeout.ms",
}


def broker_default(name: str) -> str | None:
    """The broker property that sets the default of a group property."""
    broker_name = _BROKER_NAMES.get(name)
    return broker_name.format("") if broker_name else None


def _value(name: str, overrides: Mapping[str, str], layers: ConfigLayers) -> Any:
    if name in overrides:
        return GROUP_PROPERTIES[name].parse(overrides[name])
    broker_name = _BROKER_NAMES.get(name)
    return layers.broker_value(broker_name.format("")) if broker_name else GROUP_PROPERTIES[name].default


def check_group_configs(overrides: Mapping[str, str], layers: ConfigLayers) -> None:
    """Check the configuration of a group: each value, its limits, and values that depend on each other."""
    for name, text in overrides.items():
        prop = GROUP_PROPERTIES.get(name)
        if prop is None:
            raise ConfigError(name, text, "is not a group property")
        value = prop.parse(text)
        broker_name = _BROKER_NAMES.get(name)
        if broker_name is not None:
            low = layers.broker_value(broker_name.format("min."))
            high = layers.broker_value(broker_name.format("max."))
            if not low <= value <= high:
                raise ConfigError(name, text, f"must be between {low} and {high}")
    heartbeat_ms = _value("consumer.heartbeat.interval.ms", overrides, layers)
    session_ms = _value("consumer.session.timeout.ms", overrides, layers)
    if overrides and heartbeat_ms >= session_ms:
        allowed = f"must be greater than consumer.heartbeat.interval.ms ({heartbeat_ms})"
        raise ConfigError("consumer.session.timeout.ms", session_ms, allowed)


def describe_group(
    overrides: Mapping[str, str], layers: ConfigLayers, names: Iterable[str] | None = None
) -> list[ConfigEntry]:
    """Return what DescribeConfigs reports for a group."""
    entries: list[ConfigEntry] = []
    for name in sorted(GROUP_PROPERTIES if names is None else set(names) & set(GROUP_PROPERTIES)):
        prop = GROUP_PROPERTIES[name]
        synonyms: list[ConfigSynonym] = []
        if name in overrides:
            synonyms.append(ConfigSynonym(name, overrides[name], SOURCE_DYNAMIC_GROUP))
        broker_name = _BROKER_NAMES.get(name)
        if broker_name is None:
            synonyms.append(ConfigSynonym(name, prop.show(prop.default), SOURCE_DEFAULT))
        else:
            synonyms += layers.describe_broker([broker_name.format("")])[0].synonyms
        value = prop.show(_value(name, overrides, layers))
        entries.append(ConfigEntry(prop, value, synonyms[0].source, synonyms))
    return entries
