"""The effective value of a property, and the chain of its possible sources."""

from __future__ import annotations

import pytest

from ottla.config.definitions import ConfigError
from ottla.config.load import broker_config
from ottla.config.topic import TOPIC_PROPERTIES
from ottla.config.topic_config import (
    ConfigEntry,
    ConfigLayers,
    check_dynamic_broker_config,
    check_topic_configs,
    is_list,
)

HOUR_MS = 3_600_000


def chain(entry: ConfigEntry) -> list[tuple[str, str | None, int]]:
    return [(each.name, each.value, each.source) for each in entry.synonyms]


def test_defaults_of_kafka() -> None:
    values = ConfigLayers(broker_config({})).topic_defaults()
    assert set(values) == set(TOPIC_PROPERTIES)
    assert values["retention.ms"] == 168 * HOUR_MS
    assert values["max.message.bytes"] == 1048588
    assert values["cleanup.policy"] == ("delete",)


@pytest.mark.parametrize(
    ("given", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-1", "log.retention.hours": "2"}, -1),
    ],
)
def test_the_finest_unit_that_is_set_wins(given: dict[str, str], retention_ms: int) -> None:
    assert ConfigLayers(broker_config(given)).topic_defaults()["retention.ms"] == retention_ms


def test_precedence_of_sources() -> None:
    broker = broker_config({"log.segment.bytes": "2000000"})
    assert ConfigLayers(broker).topic_values({})["segment.bytes"] == 2000000
    cluster = {"log.segment.bytes": "3000000"}
    node = {"log.segment.bytes": "4000000"}
    assert ConfigLayers(broker, cluster_dynamic=cluster).topic_values({})["segment.bytes"] == 3000000
    layers = ConfigLayers(broker, node, cluster)
    assert layers.topic_values({})["segment.bytes"] == 4000000
    assert layers.topic_values({"segment.bytes": "5000000"})["segment.bytes"] == 5000000
    (entry,) = layers.describe_topic({"segment.bytes": "5000000"}, ["segment.bytes"])
    assert entry.value == "5000000"
    assert not entry.is_default
    assert chain(entry) == [
        ("segment.bytes", "5000000", 1),
        ("log.segment.bytes", "4000000", 2),
        ("log.segment.bytes", "3000000", 3),
        ("log.segment.bytes", "2000000", 4),
        ("log.segment.bytes", "1073741824", 5),
    ]


def test_describe_of_a_topic_without_overrides() -> None:
    entries = {entry.name: entry for entry in ConfigLayers(broker_config({})).describe_topic({})}
    assert set(entries) == set(TOPIC_PROPERTIES)
    assert all(entry.source == 5 and entry.is_default for entry in entries.values())
    assert chain(entries["retention.ms"]) == [("log.retention.hours", "168", 5)]
    assert entries["retention.ms"].value == str(168 * HOUR_MS)
    throttled = entries["leader.replication.throttled.replicas"]
    assert (throttled.value, chain(throttled)) == ("", [(throttled.name, "", 5)])


def test_describe_leaves_out_names_that_do_not_exist() -> None:
    layers = ConfigLayers(broker_config({}))
    assert [entry.name for entry in layers.describe_topic({}, ["nope", "flush.ms"])] == ["flush.ms"]
    assert [entry.name for entry in layers.describe_broker(["nope", "node.id"])] == ["node.id"]


def test_describe_of_a_broker() -> None:
    broker = broker_config({"log.retention.hours": "2", "ssl.key.password": "secret"})
    layers = ConfigLayers(
        broker, node_dynamic={"log.retention.ms": "9"}, cluster_dynamic={"num.io.threads": "4"}
    )
    entries = {entry.name: entry for entry in layers.describe_broker()}
    assert (entries["log.retention.ms"].value, entries["log.retention.ms"].source) == ("9", 2)
    assert chain(entries["log.retention.ms"]) == [
        ("log.retention.ms", "9", 2),
        ("log.retention.hours", "2", 4),
        ("log.retention.hours", "168", 5),
    ]
    assert (entries["num.io.threads"].value, entries["num.io.threads"].source) == ("4", 3)
    assert entries["node.id"].prop.read_only
    assert not entries["num.io.threads"].prop.read_only
    assert entries["ssl.key.password"].value is None
    assert chain(entries["ssl.key.password"]) == [("ssl.key.password", None, 4)]
    assert layers.broker_value("num.io.threads") == 4


def test_an_override_that_became_invalid_is_ignored() -> None:
    layers = ConfigLayers(broker_config({}))
    assert layers.topic_values({"retention.ms": "never", "gone.property": "1"}) == layers.topic_defaults()


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ({"no.such": "1"}, "is not a topic property"),
        ({"retention.ms": "x"}, "whole number"),
        ({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}, "at most max.compaction.lag.ms"),
        ({"remote.storage.enable": "true"}, "not supported"),
    ],
)
def test_invalid_topic_configs(overrides: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        check_topic_configs(overrides)


def test_dynamic_broker_configs() -> None:
    assert check_dynamic_broker_config("num.io.threads", "3", cluster_wide=True) == 3
    assert check_dynamic_broker_config("listeners", "PLAINTEXT://a:1", cluster_wide=False)
    with pytest.raises(ConfigError, match="per broker"):
        check_dynamic_broker_config("listeners", "PLAINTEXT://a:1", cluster_wide=True)
    with pytest.raises(ConfigError, match="is read-only"):
        check_dynamic_broker_config("node.id", "1", cluster_wide=False)
    with pytest.raises(ConfigError, match="not a broker property"):
        check_dynamic_broker_config("retention.ms", "1", cluster_wide=False)
    assert is_list("cleanup.policy")
    assert not is_list("retention.ms")
    assert is_list("log.cleanup.policy", broker=True)
