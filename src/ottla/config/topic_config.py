"""Which value of a property is in force, and where it comes from.

A topic's property is what was set on the topic; else what its broker properties say, of which each may be set
for one broker, for the cluster, in its file, or be the default. DescribeConfigs shows the whole chain.
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
    """One place where a value could come from."""

    __slots__ = ("name", "source", "value")

    def __init__(self, name: str, value: str | None, source: int) -> None:
        self.name = name
        self.value = value
        self.source = source


class ConfigEntry:
    """A property in force, with all that DescribeConfigs tells of it."""

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
    """The layers below a topic: what is set for this broker, for the cluster, and in its file."""

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

    def _set_text(self, name: str) -> str | None:
        for layer in (self.node_dynamic, self.cluster_dynamic, self.broker.static):
            if name in layer:
                return layer[name]
        return None

    def broker_value(self, name: str) -> Any:
        """The value of a broker property in force."""
        if name in self.node_dynamic or name in self.cluster_dynamic:
            text = self._set_text(name)
            assert text is not None
            return broker_properties()[name].parse(text)
        return self.broker.values[name]

    def topic_defaults(self) -> dict[str, Any]:
        """Every topic property of a topic on which nothing is set."""
        return {name: self._topic_default(name, prop) for name, prop in TOPIC_PROPERTIES.items()}

    def topic_values(self, overrides: Mapping[str, str]) -> dict[str, Any]:
        """Every topic property of a topic with these overrides. Overrides that cannot be read are left out:
        they were checked when they were set, and a partition must open after a change of the rules."""
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
        """What DescribeConfigs answers for a topic; names that do not exist are left out, as Kafka does."""
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
        """What DescribeConfigs answers for a broker; values of secrets are not told."""
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
    return -1 if value < 0 else value * factor  # -1 hours is "no limit", as -1 milliseconds is


def _broker_chain(name: str) -> list[str]:
    """The properties that stand for each other with `name`, most specific first."""
    for synonyms in SYNONYMS.values():
        names = [broker_name for broker_name, _ in synonyms]
        if len(names) > 1 and name in names:
            return names
    return [name]


def check_topic_config(name: str, text: str) -> Any:
    """The value of a topic property; ConfigError for an unknown name or a value that it does not take."""
    prop = TOPIC_PROPERTIES.get(name)
    if prop is None:
        raise ConfigError(name, text, "is not a property of a topic")
    return prop.parse(text)


def check_topic_configs(overrides: Mapping[str, str], defaults: Mapping[str, Any] | None = None) -> None:
    """Checks what is set on a topic: each value, and those that depend on each other."""
    values = dict(defaults) if defaults is not None else {n: p.default for n, p in TOPIC_PROPERTIES.items()}
    for name, text in overrides.items():
        values[name] = check_topic_config(name, text)
    if values["min.compaction.lag.ms"] > values["max.compaction.lag.ms"]:
        allowed = f"must be at most max.compaction.lag.ms ({values['max.compaction.lag.ms']})"
        raise ConfigError("min.compaction.lag.ms", values["min.compaction.lag.ms"], allowed)
    if values["remote.storage.enable"]:
        raise ConfigError("remote.storage.enable", "true", "remote storage is not available in this version")


def check_dynamic_broker_config(name: str, text: str, cluster_wide: bool) -> Any:
    """The value of a broker property that is to change while brokers run."""
    prop = broker_properties().get(name)
    if prop is None:
        raise ConfigError(name, text, "is not a property of a broker")
    if prop.mode == READ_ONLY:
        raise prop.error(text, "can only be set in the broker's file, followed by a restart")
    if cluster_wide and prop.mode != CLUSTER_WIDE:
        raise prop.error(text, "can only be set for one broker")
    return prop.parse(text)


def is_list(name: str, broker: bool = False) -> bool:
    """Whether values can be appended to and taken from the property."""
    prop = broker_properties().get(name) if broker else TOPIC_PROPERTIES.get(name)
    return prop is not None and prop.kind == LIST
