"""The effective value of a property, and its source.

A topic property has the value set on the topic; otherwise that of its broker properties, each of which may be
set for one broker, cluster-wide, in the properties file, or have its default. DescribeConfigs reports the
whole chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.config.broker import broker_properties
from ottla.config.definitions import CLUSTER_WIDE, LIST, PASSWORD, READ_ONLY, ConfigError, Property
from ottla.config.load import BrokerConfig
from ottla.config.topic import SYNONYMS, TOPIC_PROPERTIES

# Sources, as DescribeConfigs numbers them.
SOURCE_DYNAMIC_TOPIC = 1
SOURCE_DYNAMIC_BROKER = 2
SOURCE_DYNAMIC_CLUSTER = 3
SOURCE_STATIC = 4
SOURCE_DEFAULT = 5

NOTHING: Mapping[str, str] = {}


class ConfigSynonym:
    """A possible source of a value."""

    __slots__ = ("name", "source", "value")

    def __init__(self, name: str, value: str | None, source: int) -> None:
        self.name = name
        self.value = value
        self.source = source


class ConfigEntry:
    """The effective value of a property, as DescribeConfigs reports it."""

    __slots__ = ("prop", "source", "synonyms", "value")

    def __init__(self, prop: Property, value: str | None, source: int, synonyms: list[ConfigSynonym]) -> None:
        self.prop = prop
        self.value = value
        self.source = source
        self.synonyms = synonyms

    @property
    def name(self) -> str:
        return self.prop.name

    @property
    def is_default(self) -> bool:
        return self.source == SOURCE_DEFAULT


class ConfigLayers:
    """The configuration of a broker: dynamic per broker, dynamic cluster-wide, and its properties file."""

    __slots__ = ("broker", "cluster_dynamic", "node_dynamic")

    def __init__(
        self,
        broker: BrokerConfig,
        node_dynamic: Mapping[str, str] = NOTHING,
        cluster_dynamic: Mapping[str, str] = NOTHING,
    ) -> None:
        self.broker = broker
        self.node_dynamic = node_dynamic
        self.cluster_dynamic = cluster_dynamic

    def set_dynamic(self, node: Mapping[str, str], cluster: Mapping[str, str]) -> None:
        """Replace what is set dynamically for this broker and for the cluster."""
        self.node_dynamic = node
        self.cluster_dynamic = cluster

    def _set_text(self, name: str) -> str | None:
        for layer in (self.node_dynamic, self.cluster_dynamic, self.broker.static):
            if name in layer:
                return layer[name]
        return None

    def broker_value(self, name: str) -> Any:
        """The effective value of a broker property."""
        if name in self.node_dynamic or name in self.cluster_dynamic:
            text = self._set_text(name)
            assert text is not None
            return broker_properties()[name].parse(text)
        return self.broker.values[name]

    def topic_defaults(self) -> dict[str, Any]:
        """The topic properties of a topic without overrides."""
        return {name: self._topic_default(name, prop) for name, prop in TOPIC_PROPERTIES.items()}

    def topic_values(self, overrides: Mapping[str, str]) -> dict[str, Any]:
        """The topic properties of a topic with these overrides.

        Invalid overrides are ignored: they were valid when they were set, and a partition must open although
        the rules have changed.
        """
        values = self.topic_defaults()
        for name, text in overrides.items():
            prop = TOPIC_PROPERTIES.get(name)
            if prop is not None:
                try:
                    values[name] = prop.parse(text)
                except ConfigError:
                    continue
        return values

    def _topic_default(self, name: str, prop: Property) -> Any:
        broker = self.broker
        synonyms = SYNONYMS.get(name, ())
        for broker_name, factor in synonyms:
            if self._set_text(broker_name) is not None:
                return _scaled(self.broker_value(broker_name), factor)
        for broker_name, factor in synonyms:
            value = broker.values[broker_name]
            if value is not None:
                return _scaled(value, factor)
        return prop.default

    def describe_topic(
        self, overrides: Mapping[str, str], names: Iterable[str] | None = None
    ) -> list[ConfigEntry]:
        """The response of DescribeConfigs for a topic; unknown names are left out, as in Kafka."""
        entries: list[ConfigEntry] = []
        values = self.topic_values(overrides)
        for name in sorted(TOPIC_PROPERTIES if names is None else set(names) & set(TOPIC_PROPERTIES)):
            prop = TOPIC_PROPERTIES[name]
            synonyms: list[ConfigSynonym] = []
            if name in overrides:
                synonyms.append(ConfigSynonym(name, overrides[name], SOURCE_DYNAMIC_TOPIC))
            broker_names = [broker_name for broker_name, _ in SYNONYMS.get(name, ())]
            self._add_synonyms(broker_names, synonyms)
            if not broker_names and prop.default is not None:
                synonyms.append(ConfigSynonym(name, prop.show(prop.default), SOURCE_DEFAULT))
            source = synonyms[0].source if synonyms else SOURCE_DEFAULT
            entries.append(ConfigEntry(prop, prop.show(values[name]), source, synonyms))
        return entries

    def describe_broker(self, names: Iterable[str] | None = None) -> list[ConfigEntry]:
        """The response of DescribeConfigs for a broker; secret values are left out."""
        properties = broker_properties()
        entries: list[ConfigEntry] = []
        for name in sorted(properties if names is None else set(names) & set(properties)):
            prop = properties[name]
            synonyms: list[ConfigSynonym] = []
            self._add_synonyms(_broker_chain(name), synonyms)
            own = [each for each in synonyms if each.name == name]
            source = own[0].source if own else SOURCE_DEFAULT
            value = None if prop.kind == PASSWORD else prop.show(self.broker_value(name))
            entries.append(ConfigEntry(prop, value, source, synonyms))
        return entries

    def _add_synonyms(self, names: list[str], into: list[ConfigSynonym]) -> None:
        properties = broker_properties()
        layers = (
            (self.node_dynamic, SOURCE_DYNAMIC_BROKER),
            (self.cluster_dynamic, SOURCE_DYNAMIC_CLUSTER),
            (self.broker.static, SOURCE_STATIC),
        )
        for layer, source in layers:
            for name in names:
                if name in layer:
                    hidden = properties[name].kind == PASSWORD
                    into.append(ConfigSynonym(name, None if hidden else layer[name], source))
        for name in names:
            prop = properties[name]
            if prop.default is not None:
                into.append(ConfigSynonym(name, prop.show(prop.default), SOURCE_DEFAULT))


def _scaled(value: Any, factor: int) -> Any:
    if factor == 1:
        return value
    return -1 if value < 0 else value * factor  # -1 means no limit in any unit


def _broker_chain(name: str) -> list[str]:
    """The synonyms of `name`, in order of precedence."""
    for synonyms in SYNONYMS.values():
        names = [broker_name for broker_name, _ in synonyms]
        if len(names) > 1 and name in names:
            return names
    return [name]


def check_topic_config(name: str, text: str) -> Any:
    """Return the value of a topic property, or raise ConfigError."""
    prop = TOPIC_PROPERTIES.get(name)
    if prop is None:
        raise ConfigError(name, text, "is not a topic property")
    return prop.parse(text)


def check_topic_configs(overrides: Mapping[str, str], defaults: Mapping[str, Any] | None = None) -> None:
    """Check the overrides of a topic: each value, and values that depend on each other."""
    values = dict(defaults) if defaults is not None else {n: p.default for n, p in TOPIC_PROPERTIES.items()}
    for name, text in overrides.items():
        values[name] = check_topic_config(name, text)
    if values["min.compaction.lag.ms"] > values["max.compaction.lag.ms"]:
        allowed = f"must be at most max.compaction.lag.ms ({values['max.compaction.lag.ms']})"
        raise ConfigError("min.compaction.lag.ms", values["min.compaction.lag.ms"], allowed)
    if values["remote.storage.enable"]:
        raise ConfigError("remote.storage.enable", "true", "tiered storage is not supported")


def check_dynamic_broker_config(name: str, text: str, cluster_wide: bool) -> Any:
    """Return the value of a broker property that is set dynamically, or raise ConfigError."""
    prop = broker_properties().get(name)
    if prop is None:
        raise ConfigError(name, text, "is not a broker property")
    if prop.mode == READ_ONLY:
        raise prop.error(text, "is read-only: set it in the properties file and restart the broker")
    if cluster_wide and prop.mode != CLUSTER_WIDE:
        raise prop.error(text, "can only be set per broker, not cluster-wide")
    return prop.parse(text)


def is_list(name: str, broker: bool = False) -> bool:
    """Whether the property is a list, to which items can be appended."""
    prop = broker_properties().get(name) if broker else TOPIC_PROPERTIES.get(name)
    return prop is not None and prop.kind == LIST
