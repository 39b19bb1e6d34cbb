"""The configuration reference: one row per property, derived from the definitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.config.broker import broker_tables
from ottla.config.definitions import (
    CLUSTER_WIDE,
    DOUBLE,
    KIND_NAMES,
    LIMITS,
    LIST,
    PER_BROKER,
    READ_ONLY,
    Property,
    read_table,
)
from ottla.config.group_config import GROUP_PROPERTIES, broker_default
from ottla.config.topic import SYNONYMS, TOPIC_PROPERTIES

_UPDATE_MODES = {READ_ONLY: "read-only", PER_BROKER: "per-broker", CLUSTER_WIDE: "cluster-wide"}


class ReferenceRow(NamedTuple):
    """`update` is read-only, per-broker, cluster-wide, topic or group: where a running cluster takes a new
    value."""

    level: str  # broker, topic or group
    section: str
    name: str
    type: str
    default: str
    valid: str
    update: str
    supported: bool
    description: str
    default_from: tuple[str, ...]  # broker properties that set the default of a topic or group property

    @property
    def dynamic(self) -> bool:
        return self.update != "read-only"


def reference_rows() -> Iterator[ReferenceRow]:
    """Yield every property: those of the broker by section, then those of topics and groups."""
    for section, table in broker_tables().items():
        for prop in read_table(table).values():
            yield _row("broker", section, prop, _UPDATE_MODES[prop.mode], ())
    for prop in TOPIC_PROPERTIES.values():
        names = tuple(name for name, _ in SYNONYMS.get(prop.name, ()))
        yield _row("topic", "Topics", prop, "topic", names)
    for prop in GROUP_PROPERTIES.values():
        name = broker_default(prop.name)
        yield _row("group", "Groups", prop, "group", (name,) if name else ())


def _row(
    level: str, section: str, prop: Property, update: str, default_from: tuple[str, ...]
) -> ReferenceRow:
    return ReferenceRow(
        level,
        section,
        prop.name,
        KIND_NAMES[prop.kind],
        _default_text(prop),
        _valid_text(prop),
        update,
        prop.supported,
        prop.doc,
        default_from,
    )


def _default_text(prop: Property) -> str:
    default = prop.default
    if default is None:
        return "not set"
    is_max = prop.kind in LIMITS and default == LIMITS[prop.kind][1]
    if is_max or (prop.kind == DOUBLE and default > 1e300):
        return "maximum"
    return prop.show(default) or "empty"


def _valid_text(prop: Property) -> str:
    if prop.choices:
        return f"{'any of ' if prop.kind == LIST else ''}{', '.join(prop.choices)}"
    if prop.low is not None:
        return f"{prop.low} to {prop.high}" if prop.high is not None else f"at least {prop.low}"
    return ""
