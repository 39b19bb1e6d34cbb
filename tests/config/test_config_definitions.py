"""Properties: types, checks, and errors for invalid values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.broker import broker_properties
from ottla.config.definitions import ConfigError, Property, read_table
from ottla.config.topic import SYNONYMS, TOPIC_PROPERTIES

ALL = {**broker_properties(), **TOPIC_PROPERTIES}


@pytest.mark.parametrize("prop", ALL.values(), ids=lambda prop: prop.name)
def test_every_default_is_valid(prop: Property) -> None:
    text = prop.show(prop.default)
    assert prop.doc
    if text is not None:
        assert prop.parse(text) == prop.default


def test_a_topic_has_the_default_of_its_broker_property() -> None:
    for name, synonyms in SYNONYMS.items():
        defaults = [
            broker_properties()[broker_name].default * factor
            if factor > 1
            else broker_properties()[broker_name].default
            for broker_name, factor in synonyms
            if broker_properties()[broker_name].default is not None
        ]
        assert defaults[0] == TOPIC_PROPERTIES[name].default, name


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", " -1 ", -1),
        ("retention.ms", "+5", 5),
        ("preallocate", "TRUE", True),
        ("preallocate", "false", False),
        ("cleanup.policy", "compact, delete", ("compact", "delete")),
        ("cleanup.policy", "", ()),
        ("min.cleanable.dirty.ratio", "1e-1", 0.1),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("leader.replication.throttled.replicas", "0:1,1:2", ("0:1", "1:2")),
        ("compression.gzip.level", "-1", -1),
        ("compression.type", "zstd", "zstd"),
    ],
)
def test_values(name: str, text: str, value: object) -> None:
    assert TOPIC_PROPERTIES[name].parse(text) == value


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("retention.ms", "7 days", r"retention.ms=7 days: must be a whole number \(long\) of at least -1"),
        ("retention.ms", "-2", "retention.ms=-2: must be at least -1"),
        ("retention.ms", "1_000", "whole number"),
        ("retention.ms", "٣", "whole number"),
        ("retention.ms", "9223372036854775808", "whole number"),
        ("segment.bytes", "2147483648", r"whole number \(int\)"),
        ("segment.bytes", "1", "at least 1048576"),
        ("segment.bytes", "", "whole number"),
        ("preallocate", "yes", "must be true or false"),
        ("cleanup.policy", "shred", "must contain only compact, delete"),
        ("cleanup.policy", "delete,delete", "twice"),
        ("min.cleanable.dirty.ratio", "nan", "must be a number between 0"),
        ("min.cleanable.dirty.ratio", "1.5", "must be between 0.0 and 1.0"),
        ("compression.type", "lzma", "must be one of uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("compression.gzip.level", "0", "between 1 and 9"),
        ("leader.replication.throttled.replicas", "1", "partition:broker"),
    ],
)
def test_invalid_values_name_the_valid_ones(name: str, text: str, allowed: str) -> None:
    with pytest.raises(ConfigError, match=allowed) as caught:
        TOPIC_PROPERTIES[name].parse(text)
    assert caught.value.key == name


def test_secrets_are_not_shown_in_errors() -> None:
    secret = next(iter(read_table("p password null not-empty ro | A secret.").values()))
    with pytest.raises(ConfigError) as caught:
        secret.parse("")
    assert "[hidden]" in str(caught.value)


@given(st.sampled_from(sorted(ALL)), st.text())
def test_any_text_is_a_value_or_a_config_error(name: str, text: str) -> None:
    prop = ALL[name]
    try:
        value = prop.parse(text)
    except ConfigError as error:
        assert name in str(error)
    else:
        shown = prop.show(value)
        assert shown is not None
        assert prop.parse(shown) == value
